//! What is refused in a frame's JSON before its meaning is read: things two readers of the same
//! bytes could understand differently, or that would break a recursive one.
//!
//! The first step of decoding ([`crate::envelope`]). Each check is a fast pass that finds nothing in
//! ordinary frames; only a suspicious frame is looked at closely.

pub(crate) mod tokens;

use std::{borrow::Cow, fmt, ops::ControlFlow, sync::LazyLock};

use memchr::memmem::Finder;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use self::tokens::{Token, Tokens};
use crate::{
    limits::JSON_DEPTH_MAX,
    refusal::{Code, Refusal},
};

/// Refuses a byte order mark, nesting beyond [`JSON_DEPTH_MAX`] and lone surrogates, anywhere.
///
/// # Errors
///
/// [`Code::Malformed`], [`Code::TooDeep`] or [`Code::InvalidUnicode`]; the last two name the member
/// of the envelope they were found in, where it has one.
pub fn check_text(frame: &str) -> Result<(), Refusal> {
    check_levels(frame, JSON_DEPTH_MAX)
}

/// The same of a payload that stands on its own, where the envelope would be the first level.
///
/// # Errors
///
/// As [`check_text`], naming `payload`.
pub fn check_payload(payload: &str) -> Result<(), Refusal> {
    check_levels(payload, JSON_DEPTH_MAX - 1).map_err(|refusal| Refusal {
        field: Some("payload".into()),
        ..refusal
    })
}

fn check_levels(frame: &str, levels_max: usize) -> Result<(), Refusal> {
    if frame.starts_with('\u{feff}') {
        let reason = "the frame starts with a byte order mark (U+FEFF)";
        return Err(Refusal::new(Code::Malformed, reason));
    }
    if let Some(offset) = too_deep_at(frame.as_bytes(), levels_max) {
        let reason = format!("nested more than {levels_max} levels deep at byte {offset}");
        return Err(located(Code::TooDeep, frame, offset, reason));
    }
    if let Some(offset) = lone_surrogate_at(frame.as_bytes()) {
        let reason = format!("lone surrogate escape at byte {offset}");
        return Err(located(Code::InvalidUnicode, frame, offset, reason));
    }
    Ok(())
}

/// Where the nesting first exceeds the limit. Few openers mean no deep nesting, so the close look
/// is rare.
fn too_deep_at(frame: &[u8], levels_max: usize) -> Option<usize> {
    memchr::memchr2_iter(b'[', b'{', frame).nth(levels_max)?;
    let mut depth = 0_usize;
    let mut inside_string = false;
    let mut at = 0;
    while at < frame.len() {
        match frame[at] {
            b'\\' if inside_string => at += 1,
            b'"' => inside_string = !inside_string,
            b'[' | b'{' if !inside_string => {
                depth += 1;
                if depth > levels_max {
                    return Some(at);
                }
            }
            b']' | b'}' if !inside_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// What the escape of a surrogate begins with: they are U+D800 to U+DFFF.
static SURROGATE_STARTS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new(br"\ud"), Finder::new(br"\uD")]);

/// Where a `\u` escape names half of a surrogate pair without its other half. Few frames name
/// surrogates at all, so the look at every escape is rare.
fn lone_surrogate_at(frame: &[u8]) -> Option<usize> {
    if SURROGATE_STARTS
        .iter()
        .all(|start| start.find(frame).is_none())
    {
        return None;
    }
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'\\', &frame[from..]) {
        let at = from + found;
        from = match escaped_unit(frame, at) {
            Some(0xD800..=0xDBFF) => match escaped_unit(frame, at + 6) {
                Some(0xDC00..=0xDFFF) => at + 12,
                _ => return Some(at),
            },
            Some(0xDC00..=0xDFFF) => return Some(at),
            Some(_) => at + 6,
            // Another escape, or broken JSON that the parser will name.
            None => (at + 2).min(frame.len()),
        };
    }
    None
}

/// The UTF-16 unit of the escape `\uXXXX` at `at`, if one stands there.
pub(crate) fn escaped_unit(frame: &[u8], at: usize) -> Option<u16> {
    let digits = frame.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0_u16, |unit, digit| {
        Some(unit << 4 | char::from(*digit).to_digit(16)? as u16)
    })
}

/// A refusal that names the envelope's member which holds the byte at `offset`.
fn located(code: Code, frame: &str, offset: usize, reason: String) -> Refusal {
    match member_at(frame, offset) {
        Some(member) => Refusal::of_field(code, member, reason),
        None => Refusal::new(code, reason),
    }
}

/// The top-level member whose value spans `offset`. Only looked for on the way to a refusal.
fn member_at(frame: &str, offset: usize) -> Option<String> {
    struct Find<'f>(&'f str, usize);
    impl<'de> Visitor<'de> for Find<'de> {
        type Value = ControlFlow<String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = ControlFlow::Continue(());
            while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                let start = value.get().as_ptr() as usize - self.0.as_ptr() as usize;
                if (start..start + value.get().len()).contains(&self.1) {
                    found = ControlFlow::Break(key);
                }
            }
            Ok(found)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(frame);
    match (&mut reader).deserialize_map(Find(frame, offset)) {
        Ok(ControlFlow::Break(member)) => Some(member),
        _ => None,
    }
}

/// Refuses a key given twice in one object, at any depth of `value`.
///
/// # Errors
///
/// [`Code::DuplicateKey`], naming `field`; [`Code::InvalidField`] for a number no `f64` can hold.
pub fn check_duplicate_keys(field: &str, value: &RawValue) -> Result<(), Refusal> {
    let refused = |code, reason: String| Err(Refusal::of_field(code, field.to_owned(), reason));
    // The keys of all open objects, and where those of each begin.
    let mut keys = Vec::with_capacity(32);
    let mut open = Vec::with_capacity(8);
    for token in Tokens::of(value.get()) {
        match token {
            Token::Object | Token::Array => open.push(keys.len()),
            Token::End => {
                let of_this = open.pop().unwrap_or(0);
                if let Some(key) = given_twice(&mut keys[of_this..]) {
                    let reason = format!("the key {key:?} is given twice");
                    return refused(Code::DuplicateKey, reason);
                }
                keys.truncate(of_this);
            }
            Token::Key(key) => match key.meaning() {
                Ok(key) => keys.push(key),
                Err(error) => return refused(Code::InvalidField, error.to_string()),
            },
            Token::Number(literal) if !is_finite(literal) => {
                return refused(Code::InvalidField, "number out of range".to_owned());
            }
            Token::Text(_) | Token::Number(_) | Token::Word(_) => {}
        }
    }
    Ok(())
}

/// A key that is there twice. Keys in order, as in the canonical form, are not moved.
fn given_twice<'k>(keys: &'k mut [Cow<'_, str>]) -> Option<&'k str> {
    if keys.is_sorted_by(|a, b| a < b) {
        return None;
    }
    keys.sort_unstable();
    let twice = keys.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(&twice[0])
}

/// Whether an `f64` can hold a number. Most are too short to be beyond 10^300.
fn is_finite(literal: &str) -> bool {
    let is_short = literal.len() <= 300 && !literal.contains(['e', 'E']);
    is_short || literal.parse().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_of(frame: &str) -> (Code, Option<String>) {
        let refusal = check_text(frame).unwrap_err();
        (refusal.code, refusal.field.map(|field| field.into_owned()))
    }

    fn nested(levels: usize) -> String {
        format!(
            r#"{{"payload":{}1{}}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        )
    }

    #[test]
    fn nesting_counts_the_envelope_and_not_what_stands_in_strings() {
        assert_eq!(check_text(&nested(127)), Ok(()));
        for levels in [128, 129, 1_000, 100_000] {
            assert_eq!(
                refusal_of(&nested(levels)),
                (Code::TooDeep, Some("payload".into()))
            );
        }
        let in_string = format!(
            r#"{{"payload":"{}\"{}"}}"#,
            "[".repeat(500),
            "{".repeat(500)
        );
        assert_eq!(check_text(&in_string), Ok(()));
        let wide = format!(r#"{{"payload":[{}1]}}"#, "[1],".repeat(5_000));
        assert_eq!(check_text(&wide), Ok(()));
    }

    #[test]
    fn a_payload_on_its_own_may_be_as_deep_as_in_an_envelope() {
        let levels = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(check_payload(&levels(127)), Ok(()));
        let refusal = check_payload(&levels(128)).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.field.as_deref()),
            (Code::TooDeep, Some("payload"))
        );
    }

    #[test]
    fn lone_surrogates_are_found_at_any_depth_and_pairs_are_fine() {
        for text in [
            r"\ud800",
            r"\udc00",
            r"\ud83c\ud83c",
            r"\ud83cx",
            r"\\\ud800",
            r"\uD800\n",
        ] {
            let frame = format!(r#"{{"id":"1","payload":[{{"k":"{text}"}}]}}"#);
            assert_eq!(
                refusal_of(&frame),
                (Code::InvalidUnicode, Some("payload".into())),
                "{text}"
            );
        }
        for text in [
            r"\ud83d\ude00",
            r"\\ud800",
            r"\u0000",
            r#"\u4e2d\"\\"#,
            r"\\\\ud800",
        ] {
            assert_eq!(
                check_text(&format!(r#"{{"payload":"{text}"}}"#)),
                Ok(()),
                "{text}"
            );
        }
        assert_eq!(
            check_text("{\"payload\":\"\\"),
            Ok(()),
            "broken JSON is the parser's to name"
        );
    }

    #[test]
    fn byte_order_mark() {
        assert_eq!(refusal_of("\u{feff}{}"), (Code::Malformed, None));
    }

    #[test]
    fn duplicate_keys_at_any_depth_also_when_escaped() {
        let check = |text: &str| {
            let value: &RawValue = serde_json::from_str(text).unwrap();
            check_duplicate_keys("payload", value).map_err(|refusal| refusal.code)
        };
        for fine in [
            r#"[{"a":{"b":1,"c":{"a":[]}}},1.5,-3,true,null,"x"]"#,
            r#"{"b":1,"a":{"b":1},"c":[{"b":1},{"b":1}],"":"b"}"#,
            r#"{"é":1,"e":2,"E":3,"a\"":4,"a\\":5}"#,
            "[1e308, -1.5E+300, 0.0000001e-999]",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for twice in [
            r#"[{"a":{"b":1,"b":2}}]"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"c":1,"b":{"c":1},"a":2,"c":3}"#,
            r#"{"a":[{}], "a" :{"a":1}}"#,
            r#"{"":1,"":2}"#,
        ] {
            assert_eq!(check(twice), Err(Code::DuplicateKey), "{twice}");
        }
        let many: Vec<_> = (0..1_000)
            .map(|key| format!("\"{}\":0", key * 7 % 1_000))
            .collect();
        assert_eq!(check(&format!("{{{}}}", many.join(","))), Ok(()));
        let twice = format!("{{{},\"500\":1}}", many.join(","));
        assert_eq!(check(&twice), Err(Code::DuplicateKey));
        for too_large in ["[1e999]", "-1E400", &"9".repeat(400)] {
            assert_eq!(check(too_large), Err(Code::InvalidField), "{too_large}");
        }
        // A lone surrogate has no meaning to compare.
        assert_eq!(check(r#"{"\ud800":1}"#), Err(Code::InvalidField));
    }
}
