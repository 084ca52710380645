//! Looks through a frame that may be canonical already (RFC 8785 section 3.2), without copying.
//!
//! The fast path of reading what a signature covers. It may call a canonical frame not canonical,
//! never the other way round: what it is unsure of is written anew ([`super::rewrite`]).

use super::{is_before, is_covered, number};
use crate::json::tokens::{Escapes, Token, Tokens};

/// The covered pieces of a frame that is a canonical JSON object; `None` if it may not be one. The
/// frame is well-formed JSON: it was decoded.
pub(super) fn canonical_pieces(frame: &str) -> Option<[&str; 3]> {
    let mut tokens = Tokens::of(frame);
    if tokens.next()? != Token::Object {
        return None;
    }
    let mut pieces = Pieces::of(frame);
    // The last key of each open object; an array has none. Keys that only ascend are never twice.
    let mut open = Vec::with_capacity(16);
    open.push(None);
    while !open.is_empty() {
        let is_canonical = match tokens.next()? {
            Token::Object | Token::Array => {
                open.push(None);
                true
            }
            Token::End => open.pop().is_some(),
            // Keys with escapes are left to the slow path.
            Token::Key(key) if key.escapes != Escapes::None || tokens.has_space() => false,
            Token::Key(key) if open.len() == 1 && !is_covered(key.raw()) => {
                let start = tokens.start();
                tokens.skip_value()?;
                pieces.cut(start, tokens.end());
                true
            }
            Token::Key(key) => {
                let last = open.last_mut()?.replace(key.raw());
                last.is_none_or(|last| is_before(last, key.raw()))
            }
            Token::Text(text) => text.escapes != Escapes::Any,
            Token::Number(literal) => number::is_canonical(literal),
            Token::Word(_) => true,
        };
        if !is_canonical {
            return None;
        }
    }
    let is_all = tokens.end() == frame.len() && !tokens.has_space();
    is_all.then(|| pieces.end()).flatten()
}

/// What is left of a frame when up to two members are cut out of it.
struct Pieces<'f> {
    frame: &'f str,
    done: [&'f str; 3],
    count: usize,
    from: usize,
}

impl<'f> Pieces<'f> {
    fn of(frame: &'f str) -> Self {
        Pieces {
            frame,
            done: [""; 3],
            count: 0,
            from: 0,
        }
    }

    /// Cuts the member from `start` to the comma or brace at `end`, and one comma with it.
    fn cut(&mut self, start: usize, end: usize) {
        let kept = &self.frame[self.from..start];
        // Nothing kept: the first member was cut as well.
        let is_first = matches!(kept, "{" | "");
        let is_followed = self.frame.as_bytes().get(end) == Some(&b',');
        let (kept, from) = match (is_first, is_followed) {
            (true, true) => (kept, end + 1),
            (true, false) => (kept, end),
            (false, _) => (kept.strip_suffix(',').unwrap_or(kept), end),
        };
        if let Some(place) = self.done.get_mut(self.count) {
            *place = kept;
        }
        self.count += 1;
        self.from = from;
    }

    fn end(mut self) -> Option<[&'f str; 3]> {
        *self.done.get_mut(self.count)? = &self.frame[self.from..];
        Some(self.done)
    }
}
