//! Writes the canonical form (RFC 8785) of a frame that is not canonical.
//!
//! The slow path of reading what a signature covers, and the usual one: most senders put their
//! members in an order of their own. Everything is written once as it comes, spelled canonically;
//! objects whose keys were out of order are noted, and their members put in order at the end.

use std::{borrow::Cow, ops::Range};

use super::{is_before, is_covered, number, text, utf16_order};
use crate::{
    json::tokens::{Escapes, Quoted, Token, Tokens},
    limits::JSON_DEPTH_MAX,
    refusal::{Code, Refusal},
};

/// The canonical form of a frame, without the members that are not covered.
pub(super) fn rewritten(frame: &str) -> Result<String, Refusal> {
    let mut writer = Writer {
        out: String::with_capacity(frame.len()),
        ..Writer::default()
    };
    let mut tokens = Tokens::of(frame);
    let mut next = tokens.next().filter(|token| *token == Token::Object);
    while let Some(token) = next {
        writer.take(token, &mut tokens)?;
        if writer.open.is_empty() {
            return Ok(writer.in_order());
        }
        next = tokens.next();
    }
    Err(malformed())
}

fn malformed() -> Refusal {
    Refusal::new(Code::Malformed, "not a JSON object")
}

#[derive(Default)]
struct Writer<'f> {
    /// What was written, in the order it came.
    out: String,
    open: Vec<Open>,
    /// Of all open objects.
    members: Vec<Member<'f>>,
    /// The envelope's member that is being written.
    field: Cow<'f, str>,
    /// Objects that came in another order.
    unordered: Vec<Unordered>,
    /// Their members in order, those of an object together; in `out`.
    ordered: Vec<Range<usize>>,
}

/// An array or object that is not closed yet.
struct Open {
    close: char,
    /// Where its opening stands in `out`.
    start: usize,
    /// How many members the objects around it have so far.
    members: usize,
}

struct Member<'f> {
    key: Cow<'f, str>,
    /// In `out`.
    span: Range<usize>,
}

/// An object to put in order.
struct Unordered {
    /// From its opening brace to before the closing one.
    span: Range<usize>,
    /// In `ordered`.
    members: Range<usize>,
}

impl<'f> Writer<'f> {
    fn take(&mut self, token: Token<'f>, tokens: &mut Tokens<'f>) -> Result<(), Refusal> {
        match token {
            Token::Object => self.open('{', '}')?,
            Token::Array => self.open('[', ']')?,
            Token::End => self.end()?,
            Token::Key(key) => {
                let meaning = key.meaning().map_err(|_| malformed())?;
                if self.open.len() == 1 && !is_covered(&meaning) {
                    return tokens.skip_value().ok_or_else(malformed);
                }
                self.key(key, meaning)?;
            }
            Token::Text(text) => {
                self.separate();
                self.text(text)?;
            }
            Token::Number(literal) => {
                self.separate();
                let Some(number) = number::canonical_if_safe(literal) else {
                    let field = self.field.clone().into_owned();
                    let reason = format!(
                        "{literal} in {field} is not a number every reader understands alike; sign it as a string"
                    );
                    return Err(Refusal::of_field(Code::UnsafeNumber, field, reason));
                };
                self.out.push_str(&number);
            }
            Token::Word(word) => {
                self.separate();
                self.out.push_str(word);
            }
        }
        Ok(())
    }

    /// A comma, unless this is the first of an array or object, or the value behind a key.
    fn separate(&mut self) {
        if !matches!(self.out.as_bytes().last(), None | Some(b'[' | b'{' | b':')) {
            self.out.push(',');
        }
    }

    fn open(&mut self, open: char, close: char) -> Result<(), Refusal> {
        if self.open.len() == JSON_DEPTH_MAX {
            let reason = format!("nested more than {JSON_DEPTH_MAX} levels deep");
            return Err(Refusal::new(Code::TooDeep, reason));
        }
        self.separate();
        self.open.push(Open {
            close,
            start: self.out.len(),
            members: self.members.len(),
        });
        self.out.push(open);
        Ok(())
    }

    fn key(&mut self, key: Quoted<'f>, meaning: Cow<'f, str>) -> Result<(), Refusal> {
        self.separate();
        if self.open.len() == 1 {
            self.field = meaning.clone();
        }
        let start = self.out.len();
        self.members.push(Member {
            key: meaning,
            span: start..start,
        });
        self.text(key)?;
        self.out.push(':');
        Ok(())
    }

    fn text(&mut self, text: Quoted<'f>) -> Result<(), Refusal> {
        match text.escapes {
            Escapes::None | Escapes::Needed => self.out.push_str(text.literal),
            Escapes::Any => {
                text::push(text.literal, &mut self.out).ok_or_else(malformed)?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refusal> {
        let open = self.open.pop().ok_or_else(malformed)?;
        let members = self.members.get_mut(open.members..).unwrap_or_default();
        let is_in_order = members.is_sorted_by(|a, b| is_before(&a.key, &b.key));
        if !is_in_order {
            let span = open.start..self.out.len();
            let is_envelope = self.open.is_empty();
            self.put_in_order(open.members, span).map_err(|key| {
                let reason = format!("the key {key:?} is given twice");
                let field = if is_envelope {
                    key
                } else {
                    self.field.to_string()
                };
                Refusal::of_field(Code::DuplicateKey, field, reason)
            })?;
        }
        self.members.truncate(open.members);
        self.out.push(open.close);
        Ok(())
    }

    /// Notes the order of an object's members. Fails with a key that is there twice.
    fn put_in_order(&mut self, first: usize, span: Range<usize>) -> Result<(), String> {
        let members = &mut self.members[first..];
        let mut end = span.end;
        for member in members.iter_mut().rev() {
            member.span.end = end;
            // A comma stands between them.
            end = member.span.start.saturating_sub(1);
        }
        members.sort_unstable_by(|a, b| utf16_order(&a.key, &b.key));
        if let Some(twice) = members.windows(2).find(|pair| pair[0].key == pair[1].key) {
            return Err(twice[0].key.to_string());
        }
        let before = self.ordered.len();
        self.ordered
            .extend(members.iter().map(|member| member.span.clone()));
        self.unordered.push(Unordered {
            span,
            members: before..self.ordered.len(),
        });
        Ok(())
    }

    /// All that was written, each object's members in order.
    fn in_order(mut self) -> String {
        if self.unordered.is_empty() {
            return self.out;
        }
        self.unordered
            .sort_unstable_by_key(|object| object.span.start);
        let mut ordered = String::with_capacity(self.out.len());
        self.copy(0..self.out.len(), &mut ordered);
        ordered
    }

    /// Copies a part of `out`, the members of every object in it in order. As deep as the frame.
    fn copy(&self, span: Range<usize>, to: &mut String) {
        let mut at = span.start;
        while let Some(object) = self.first_unordered(at).filter(|o| o.span.start < span.end) {
            to.push_str(&self.out[at..=object.span.start]);
            for (count, member) in self.ordered[object.members.clone()].iter().enumerate() {
                if count > 0 {
                    to.push(',');
                }
                self.copy(member.clone(), to);
            }
            at = object.span.end;
        }
        to.push_str(&self.out[at..span.end]);
    }

    fn first_unordered(&self, from: usize) -> Option<&Unordered> {
        let before = self
            .unordered
            .partition_point(|object| object.span.start < from);
        self.unordered.get(before)
    }
}
