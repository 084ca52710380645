//! Looks through a frame that may be canonical already (RFC 8785 section 3.2), without copying.
//!
//! The fast path of reading what a signature covers. It may call a canonical frame not canonical,
//! never the other way round: what it is unsure of is left to the slow path.

use super::{NOT_COVERED, number};

/// The covered pieces of a frame that is a canonical JSON object; `None` if it may not be one. The
/// frame is well-formed JSON: it was decoded.
pub(super) fn canonical_pieces(frame: &str) -> Option<[&str; 3]> {
    let mut scan = Scan {
        frame,
        at: 0,
        open: Vec::new(),
        expects_key: false,
        uncovered: None,
        pieces: Pieces {
            frame,
            done: [""; 3],
            count: 0,
            from: 0,
        },
    };
    if !frame.starts_with('{') {
        return None;
    }
    while scan.at < frame.len() {
        scan.step()?;
    }
    scan.open.is_empty().then(|| scan.pieces.end()).flatten()
}

/// Where the string that starts at `at` ends, one past its closing quote; `None` if it does not.
pub(super) fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// An open array, or an open object and the last key in it.
enum Open<'f> {
    Array,
    Object(Option<&'f str>),
}

struct Scan<'f> {
    frame: &'f str,
    at: usize,
    open: Vec<Open<'f>>,
    expects_key: bool,
    /// Where a member that is not covered began.
    uncovered: Option<usize>,
    pieces: Pieces<'f>,
}

impl<'f> Scan<'f> {
    /// Goes past one token.
    fn step(&mut self) -> Option<()> {
        let bytes = self.frame.as_bytes();
        match bytes[self.at] {
            b'{' => {
                self.open.push(Open::Object(None));
                self.expects_key = bytes.get(self.at + 1) != Some(&b'}');
                self.at += 1;
            }
            b'[' => {
                self.open.push(Open::Array);
                self.at += 1;
            }
            b'}' | b']' => {
                self.end_member();
                self.open.pop()?;
                self.at += 1;
            }
            b',' => {
                self.end_member();
                self.expects_key = matches!(self.open.last()?, Open::Object(_));
                self.at += 1;
            }
            b'"' if self.expects_key => self.key()?,
            b'"' => {
                let end = string_end(bytes, self.at)?;
                if !is_canonical_string(&bytes[self.at + 1..end - 1]) {
                    return None;
                }
                self.at = end;
            }
            b'-' | b'0'..=b'9' => {
                let end = number::literal_end(bytes, self.at);
                if !number::is_canonical(&self.frame[self.at..end]) {
                    return None;
                }
                self.at = end;
            }
            b'a'..=b'z' => self.at += 1,
            _ => return None,
        }
        Some(())
    }

    /// Goes past a key and its colon. Keys with escapes are left to the slow path.
    fn key(&mut self) -> Option<()> {
        let bytes = self.frame.as_bytes();
        let end = string_end(bytes, self.at)?;
        let key = &self.frame[self.at + 1..end - 1];
        if key.contains('\\') || bytes.get(end) != Some(&b':') {
            return None;
        }
        if self.open.len() == 1 && NOT_COVERED.contains(&key) {
            self.uncovered = Some(self.at);
        } else {
            let Open::Object(last) = self.open.last_mut()? else {
                return None;
            };
            if last.is_some_and(|last| !is_before(last, key)) {
                return None;
            }
            *last = Some(key);
        }
        self.expects_key = false;
        self.at = end + 1;
        Some(())
    }

    /// At a comma or the closing brace of the envelope: cuts a member that is not covered.
    fn end_member(&mut self) {
        if self.open.len() == 1
            && let Some(start) = self.uncovered.take()
        {
            self.pieces.cut(start, self.at);
        }
    }
}

/// Whether key `a` sorts before `b`: by UTF-16 units (RFC 8785 section 3.2.3).
fn is_before(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        a < b
    } else {
        a.encode_utf16().lt(b.encode_utf16())
    }
}

/// Whether what stands between two quotes has only the escapes it needs, in their shortest form.
fn is_canonical_string(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        rest = match &rest[at + 1..] {
            [b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => rest,
            [
                b'u',
                b'0',
                b'0',
                b'0',
                b'0'..=b'7' | b'b' | b'e' | b'f',
                rest @ ..,
            ]
            | [b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', rest @ ..] => rest,
            _ => return false,
        };
    }
    true
}

/// What is left of a frame when up to two members are cut out of it.
struct Pieces<'f> {
    frame: &'f str,
    done: [&'f str; 3],
    count: usize,
    from: usize,
}

impl<'f> Pieces<'f> {
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
