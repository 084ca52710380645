//! Strings as the canonical form spells them (RFC 8785 section 3.2.2.2).
//!
//! Part of writing what a signature covers.

use crate::json::escaped_unit;

/// Writes a string that has escapes it does not need. `None` for what is no string.
pub(super) fn push(literal: &str, out: &mut String) -> Option<()> {
    let mut rest = literal;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let escape = &rest[at..];
        let length = match escape.as_bytes().get(1)? {
            b'u' => {
                let (char, length) = escaped_char(escape.as_bytes())?;
                push_char(char, out);
                length
            }
            b'/' => {
                out.push('/');
                2
            }
            _ => {
                out.push_str(escape.get(..2)?);
                2
            }
        };
        rest = &escape[length..];
    }
    out.push_str(rest);
    Some(())
}

/// The character that `\uXXXX`, or two of them, mean, and how many bytes they are.
fn escaped_char(escape: &[u8]) -> Option<(char, usize)> {
    let unit = escaped_unit(escape, 0)?;
    if let Some(char) = char::from_u32(unit.into()) {
        return Some((char, 6));
    }
    let pair = [unit, escaped_unit(escape, 6)?];
    let char = char::decode_utf16(pair).next()?.ok()?;
    Some((char, 12))
}

fn push_char(char: char, out: &mut String) {
    if !char.is_control() && char != '"' && char != '\\' {
        out.push(char);
    } else if let Ok(quoted) = serde_json::to_string(&char) {
        // Its escapes are the same.
        out.push_str(&quoted[1..quoted.len() - 1]);
    }
}
