//! The tokens of a JSON text that a parser accepted already.
//!
//! What a second look at a frame is made of: the search for keys given twice ([`super`]) and the
//! canonical form ([`crate::canonical`]). It knows no grammar: of a text that is no JSON it gives
//! some tokens, or stops.

use std::borrow::Cow;

/// One token. Commas and colons are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'j> {
    /// An object opens.
    Object,
    /// An array opens.
    Array,
    /// The innermost of them closes.
    End,
    Key(Quoted<'j>),
    Text(Quoted<'j>),
    Number(&'j str),
    /// `true`, `false` or `null`.
    Word(&'j str),
}

/// A string as it is spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quoted<'j> {
    /// With its quotes.
    pub(crate) literal: &'j str,
    pub(crate) escapes: Escapes,
}

/// The escapes of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    None,
    /// Only what must be escaped is, each in its shortest form: as in the canonical form (RFC 8785
    /// section 3.2.2.2).
    Needed,
    /// Others too.
    Any,
}

impl<'j> Quoted<'j> {
    /// What stands between the quotes, escapes as they are.
    pub(crate) fn raw(&self) -> &'j str {
        &self.literal[1..self.literal.len() - 1]
    }

    /// The text that is meant.
    pub(crate) fn meaning(&self) -> serde_json::Result<Cow<'j, str>> {
        match self.escapes {
            Escapes::None => Ok(Cow::Borrowed(self.raw())),
            Escapes::Needed | Escapes::Any => serde_json::from_str(self.literal).map(Cow::Owned),
        }
    }
}

/// Goes through a text, token by token.
#[derive(Debug, Clone)]
pub(crate) struct Tokens<'j> {
    json: &'j str,
    at: usize,
    start: usize,
    has_space: bool,
}

impl<'j> Tokens<'j> {
    pub(crate) fn of(json: &'j str) -> Self {
        Tokens {
            json,
            at: 0,
            start: 0,
            has_space: false,
        }
    }

    /// Where the last token began.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Where the last token ended; behind a key, that is behind its colon.
    pub(crate) fn end(&self) -> usize {
        self.at
    }

    /// Whether there was white space so far.
    pub(crate) fn has_space(&self) -> bool {
        self.has_space
    }

    /// Passes over one value, whole.
    pub(crate) fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.next()? {
                Token::Object | Token::Array => depth += 1,
                Token::End => depth = depth.checked_sub(1)?,
                Token::Key(_) | Token::Text(_) | Token::Number(_) | Token::Word(_) => {}
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// A string that began before `at`: a key if a colon follows.
    #[inline(always)]
    fn quoted(&mut self) -> Option<Token<'j>> {
        let bytes = self.json.as_bytes();
        let mut escapes = Escapes::None;
        loop {
            self.at = quote_or_escape(bytes, self.at)?;
            let rest = &bytes[self.at..];
            if rest[0] == b'"' {
                break;
            }
            escapes = match escapes {
                Escapes::None | Escapes::Needed if is_needed(rest) => Escapes::Needed,
                _ => Escapes::Any,
            };
            self.at += 2;
        }
        self.at += 1;
        let quoted = Quoted {
            literal: &self.json[self.start..self.at],
            escapes,
        };
        let colon = match bytes.get(self.at) {
            Some(b',' | b':' | b'}' | b']') => self.at,
            _ => {
                self.at
                    + bytes[self.at..]
                        .iter()
                        .take_while(|byte| is_space(**byte))
                        .count()
            }
        };
        if bytes.get(colon) != Some(&b':') {
            return Some(Token::Text(quoted));
        }
        self.has_space |= colon > self.at;
        self.at = colon + 1;
        Some(Token::Key(quoted))
    }

    fn number(&mut self) -> Token<'j> {
        let rest = &self.json.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| is_of_number(**byte)).count();
        Token::Number(&self.json[self.start..self.at])
    }

    fn word(&mut self, length: usize) -> Option<Token<'j>> {
        self.at = self.start + length;
        self.json.get(self.start..self.at).map(Token::Word)
    }
}

impl<'j> Iterator for Tokens<'j> {
    type Item = Token<'j>;

    #[inline(always)]
    fn next(&mut self) -> Option<Token<'j>> {
        loop {
            self.start = self.at;
            self.at += 1;
            return match self.json.as_bytes().get(self.start)? {
                b',' => continue,
                b' ' | b'\t' | b'\n' | b'\r' => {
                    self.has_space = true;
                    continue;
                }
                b'"' => self.quoted(),
                b'{' => Some(Token::Object),
                b'[' => Some(Token::Array),
                b'}' | b']' => Some(Token::End),
                b'-' | b'0'..=b'9' => Some(self.number()),
                b't' | b'n' => self.word(4),
                b'f' => self.word(5),
                _ => None,
            };
        }
    }
}

/// Where the next quote or backslash stands, at `from` or later. Sixteen bytes are looked at as one
/// number: most strings are so short that the call of a search for long ones would cost more.
#[inline]
fn quote_or_escape(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    let mut rest = bytes.get(from..)?;
    while let Some((sixteen, behind)) = rest.split_first_chunk() {
        let sixteen = u128::from_le_bytes(*sixteen);
        let found = first_of(sixteen, b'"') | first_of(sixteen, b'\\');
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 16;
        rest = behind;
    }
    let is_found = |byte: &u8| matches!(byte, b'"' | b'\\');
    rest.iter().position(is_found).map(|found| at + found)
}

/// Sixteen bytes as one number, in which the lowest bit that is set is in the first that is `byte`
/// ("Bit Twiddling Hacks", determine if a word has a zero byte).
fn first_of(sixteen: u128, byte: u8) -> u128 {
    const ONES: u128 = u128::from_le_bytes([1; 16]);
    let zero = sixteen ^ u128::from_le_bytes([byte; 16]);
    zero.wrapping_sub(ONES) & !zero & (ONES << 7)
}

/// Whether what begins with this backslash is an escape of the canonical form.
fn is_needed(rest: &[u8]) -> bool {
    match rest {
        [_, b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', ..] => true,
        [_, b'u', b'0', b'0', b'0', last, ..] => {
            matches!(last, b'0'..=b'7' | b'b' | b'e' | b'f')
        }
        [_, b'u', b'0', b'0', b'1', last, ..] => matches!(last, b'0'..=b'9' | b'a'..=b'f'),
        _ => false,
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each token as it is spelled, keys with their colon, `.` for an end.
    fn spelled(json: &str) -> String {
        let spell = |token| match token {
            Token::Object => "{",
            Token::Array => "[",
            Token::End => ".",
            Token::Key(quoted) | Token::Text(quoted) => quoted.literal,
            Token::Number(literal) | Token::Word(literal) => literal,
        };
        Tokens::of(json).map(spell).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn keys_texts_numbers_and_words_are_told_apart() {
        let json = "{ \"a\\\"\\\\\" :\t[-1.5e+3,\"b\\\\\",true , null],\r\n\"\":{},\"c\":[[]]}";
        let want = r#"{ "a\"\\" [ -1.5e+3 "b\\" true null . "" { . "c" [ [ . . ."#;
        assert_eq!(spelled(json), want);
        let keys = Tokens::of(json).filter(|token| matches!(token, Token::Key(_)));
        assert_eq!(keys.count(), 3);
        let mut tokens = Tokens::of(json);
        assert!(tokens.skip_value().is_some() && tokens.has_space());
        assert_eq!(tokens.end(), json.len());
    }

    #[test]
    fn the_end_of_a_string_is_found_wherever_it_stands() {
        for before in 0..40 {
            for after in [0, 1, 7, 8, 30] {
                for special in ["\"", "\\"] {
                    // Bytes that differ from those sought by one bit, by the lowest, and by a borrow.
                    let text = ["#", "!", "]", "[", "\u{e9}", "\u{a2}"].concat();
                    let text: String = text.chars().cycle().take(before).collect();
                    let json = format!("{text}{special}{}", "\"".repeat(after));
                    assert_eq!(
                        quote_or_escape(json.as_bytes(), 0),
                        Some(text.len()),
                        "{json}"
                    );
                    assert_eq!(quote_or_escape(text.as_bytes(), 0), None);
                }
            }
        }
    }

    #[test]
    fn escapes_are_needed_or_not() {
        let escapes = |json: &str| match Tokens::of(json).next() {
            Some(Token::Text(text)) => text.escapes,
            other => panic!("{json} gives {other:?}"),
        };
        assert_eq!(escapes("\"a/\u{7f}\u{2028}\""), Escapes::None);
        for needed in [
            r#""\"\\\b\f\n\r\t""#,
            r#""\u0000\u0007\u000b\u000e\u000f""#,
            r#""\u0010\u0019\u001a\u001f""#,
        ] {
            assert_eq!(escapes(needed), Escapes::Needed);
        }
        for any in [
            "\\/",
            "\\u0008",
            "\\u0009",
            "\\u000a",
            "\\u000c",
            "\\u000d",
            "\\u000B",
            "\\u001F",
            "\\u0020",
            "\\u0041",
            "\\u2028",
            "\\ud83d\\ude00",
        ] {
            let json = format!("\"\\n{any}\\n\"");
            assert_eq!(escapes(&json), Escapes::Any, "{any}");
        }
    }

    #[test]
    fn what_is_no_json_ends() {
        for json in ["\"", "\"\\", "\"\\\"", "[1,\"a", "\u{e9}", "\"\\\u{e9}"] {
            let mut tokens = Tokens::of(json);
            assert!(tokens.by_ref().count() < 3, "{json}");
            assert_eq!(tokens.skip_value(), None, "{json}");
        }
    }
}
