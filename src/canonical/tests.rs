//! Goal: the bytes that are covered are those of RFC 8785, whichever path finds them.
//! Method: samples of the RFC, cuts at every place, and the fast path, the slow one and a general
//! library against each other, on texts that are canonical, almost, and not at all.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, value::RawValue};

use super::*;
use crate::{Code, json::check_duplicate_keys, keys::Algorithm};

fn covered(frame: &str) -> String {
    SigningInput::of(frame).unwrap().to_text()
}

fn fast(frame: &str) -> Option<String> {
    scan::canonical_pieces(frame).map(|pieces| pieces.concat())
}

fn slow(frame: &str) -> Result<String, Code> {
    rewrite::rewritten(frame).map_err(|refusal| refusal.code)
}

/// What a library makes of an object without keys given twice and with safe numbers.
fn by_library(frame: &str) -> String {
    let Value::Object(mut members) = serde_json::from_str(frame).unwrap() else {
        panic!("{frame} is no object");
    };
    members.retain(|key, _| is_covered(key));
    serde_json_canonicalizer::to_string(&members).unwrap()
}

#[test]
fn a_canonical_frame_is_covered_without_the_two_members() {
    for (frame, want) in [
        (r#"{"a":1,"signature":"s","z":2}"#, r#"{"a":1,"z":2}"#),
        (r#"{"signature":"s","z":2}"#, r#"{"z":2}"#),
        (r#"{"a":1,"signature":"s"}"#, r#"{"a":1}"#),
        (r#"{"harbor":{"a":{}},"signature":"s"}"#, "{}"),
        (r#"{"harbor":{},"signature":"s","z":1}"#, r#"{"z":1}"#),
        (
            r#"{"a":[],"harbor":{},"signature":"s","z":1}"#,
            r#"{"a":[],"z":1}"#,
        ),
        (
            r#"{"a":1,"harbor":{},"p":{"signature":1},"signature":"s"}"#,
            r#"{"a":1,"p":{"signature":1}}"#,
        ),
        (
            r#"{"a":{"b":[{"c":"\u001f\n"}]}}"#,
            r#"{"a":{"b":[{"c":"\u001f\n"}]}}"#,
        ),
    ] {
        assert_eq!(fast(frame).as_deref(), Some(want), "{frame}");
        assert_eq!(slow(frame).as_deref(), Ok(want), "{frame}");
    }
}

#[test]
fn what_is_not_canonical_is_left_to_the_slow_path() {
    for (frame, want) in [
        (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        (r#"{ "a":1}"#, r#"{"a":1}"#),
        (r#"{"a":1.0}"#, r#"{"a":1}"#),
        (r#"{"a":"\u0041\/"}"#, r#"{"a":"A/"}"#),
        (r#"{"a":"\u000A"}"#, r#"{"a":"\n"}"#),
        (
            r#"{"a":"\u0022\u005C\u001F\u0008\ud83d\ude00\u00e9\u007f\t\/"}"#,
            "{\"a\":\"\\\"\\\\\\u001f\\b\u{1f600}é\u{7f}\\t/\"}",
        ),
        (
            r#"{"b":{"d":[1,{"f":1,"e":{}}],"c":{}},"a":[]}"#,
            r#"{"a":[],"b":{"c":{},"d":[1,{"e":{},"f":1}]}}"#,
        ),
        (
            r#"{"a":-0,"b":-0.0,"c":1E2,"d":1e21,"e":[1.50,-1]}"#,
            r#"{"a":0,"b":0,"c":100,"d":1e+21,"e":[1.5,-1]}"#,
        ),
        // A key with an escape sorts by what it means.
        (r#"{"\u0061":2,"b":1}"#, r#"{"a":2,"b":1}"#),
        (
            r#"{"\u0062":1,"a":2,"signatur\u0065":3}"#,
            r#"{"a":2,"b":1}"#,
        ),
        (
            r#"{"signature":{"x":[{}]},"b":1,"harbor":[1,2],"a":2}"#,
            r#"{"a":2,"b":1}"#,
        ),
        (r#"{"a":1,"harbor":1,"b":2} "#, r#"{"a":1,"b":2}"#),
        // By UTF-16 an emoji, which is a surrogate pair, sorts before U+E000 and later.
        (
            "{\"\u{e000}\":1,\"\u{1f600}\":2}",
            "{\"\u{1f600}\":2,\"\u{e000}\":1}",
        ),
    ] {
        assert_eq!(fast(frame), None, "{frame}");
        assert_eq!(covered(frame), want, "{frame}");
    }
    let by_utf16 = "{\"\u{1f600}\":2,\"\u{e000}\":1}";
    assert_eq!(fast(by_utf16).as_deref(), Some(by_utf16));
}

/// The sample of RFC 8785 section 3.2.2, as it is printed there; and that of section 3.2.3.
#[test]
fn rfc_8785_samples() {
    let input = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
    // The first number has more digits than a double keeps: readers that keep them would differ.
    assert_eq!(
        SigningInput::of(input).unwrap_err().code,
        Code::UnsafeNumber
    );
    let safe = input.replace("333333333.33333329", "333333333.3333333");
    let want = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    assert_eq!(covered(&safe), want);
    let keys = "{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\",\"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\",\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}";
    let order: Vec<String> = serde_json::from_str::<Value>(&covered(keys))
        .map(|_| {
            covered(keys)
                .split("\":\"")
                .map(ToOwned::to_owned)
                .collect()
        })
        .unwrap();
    let values = [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small",
        "Euro Sign",
        "Emoji",
        "Hebrew",
    ];
    for (value, text) in values.iter().zip(&order[1..]) {
        assert!(text.starts_with(value), "{value} in {text}");
    }
}

#[test]
fn unsafe_numbers_and_keys_given_twice_are_refused() {
    for frame in [
        r#"{"payload":9007199254740993}"#,
        r#"{"payload":[{"a":-9007199254740992}]}"#,
        r#"{"b":1,"a":9007199254740993.0}"#,
        r#"{"a":[1e400]}"#,
    ] {
        assert_eq!(
            SigningInput::of(frame).unwrap_err().code,
            Code::UnsafeNumber,
            "{frame}"
        );
    }
    for (frame, field) in [
        (r#"{"x":{"a":1,"a":2}}"#, "x"),
        (r#"{"y":1,"x":[{"b":1,"a":2,"\u0062":3}]}"#, "x"),
        (r#"{"a":1,"b":2,"a":3}"#, "a"),
    ] {
        let refusal = SigningInput::of(frame).unwrap_err();
        assert_eq!(refusal.code, Code::DuplicateKey, "{frame}");
        assert_eq!(refusal.field.as_deref(), Some(field), "{frame}");
    }
}

#[test]
fn what_is_no_object_is_refused() {
    for text in ["", " ", "[]", "1", "\"a\"", "{", "{\"a\":[1,2", "{\"a", "é"] {
        assert_eq!(slow(text), Err(Code::Malformed), "{text}");
        assert_eq!(fast(text), None, "{text}");
    }
    for (levels, want) in [
        (127, None),
        (128, Some(Code::TooDeep)),
        (100_000, Some(Code::TooDeep)),
    ] {
        // In another order at each level, so that putting it in order goes as deep.
        let frame = format!(
            "{}1{}",
            "{\"b\":".repeat(levels + 1),
            ",\"a\":2}".repeat(levels + 1)
        );
        let covered = slow(&frame);
        assert_eq!(covered.as_ref().err().copied(), want);
        if let Ok(covered) = covered {
            assert_eq!(
                covered,
                format!(
                    "{}1{}",
                    "{\"a\":2,\"b\":".repeat(levels + 1),
                    "}".repeat(levels + 1)
                )
            );
        }
    }
}

/// What was seen of one frame says nothing of another, nor of the same bytes elsewhere.
#[test]
fn what_decoding_saw_is_believed_of_that_frame_only() {
    let key = crate::keys::Key::generate("k", "a", Algorithm::HmacSha256).unwrap();
    let mut envelope = crate::Envelope::new("t").to("b");
    (envelope.id, envelope.sender) = ("1".into(), crate::envelope::Endpoint::new("a"));
    let signed = crate::signature::signed(envelope, &key).unwrap();
    let frame = serde_json::from_str::<Value>(&signed).unwrap().to_string();
    let decoded = crate::Envelope::decode(&frame).unwrap();
    assert!(decoded.covered.0.is_some());
    let verify = |frame: &str| {
        crate::signature::verify(&decoded, frame, &[&key], jiff::Timestamp::now()).is_ok()
    };
    assert!(verify(&frame) && verify(&frame.clone()));
    let other = frame.replace("\"type\":\"t\"", "\"type\":\"u\"");
    assert!(!verify(&other) && !verify(&frame[..frame.len() - 1]));
    assert!(decoded.into_owned().covered.0.is_none());
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53) + 1..1 << 53).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z\"\\\\\n\u{1}é\u{e000}\u{1f600}]{0,6}".prop_map(Value::from),
    ];
    let key = "[a-c\u{e000}\u{1f600}]{0,3}|signature|harbor";
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A JSON text of an object's members, spelled at random: white space, escapes, order, numbers, and
/// now and then a key twice.
fn spelled(value: &Value, rng: &mut fastrand::Rng) -> String {
    let space = |rng: &mut fastrand::Rng| *rng.choice(&["", "", "", "", " ", "\n\t"]).unwrap();
    let around =
        |text: String, rng: &mut fastrand::Rng| format!("{}{text}{}", space(rng), space(rng));
    let text = match value {
        Value::String(text) => spelled_text(text, rng),
        Value::Array(elements) => {
            let elements: Vec<_> = elements
                .iter()
                .map(|element| spelled(element, rng))
                .collect();
            format!("[{}{}]", space(rng), elements.join(","))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(key, value)| {
                    let key = spelled_text(key, rng);
                    format!("{}:{}", around(key, rng), spelled(value, rng))
                })
                .collect();
            if rng.u32(..8) == 0 {
                rng.shuffle(&mut members);
            }
            if let (0, Some(member)) = (rng.u32(..60), members.first().cloned()) {
                members.push(member);
            }
            format!("{{{}{}}}", space(rng), members.join(","))
        }
        Value::Number(number) if number.as_f64() == Some(0.0) => {
            (*rng.choice(&["0", "-0", "0.0", "-0.0e5", "0E-2"]).unwrap()).to_owned()
        }
        Value::Number(number) if number.is_u64() && rng.bool() => {
            format!(
                "{number}{}",
                rng.choice(&[".0", "e0", "E+00", ".00e0"]).unwrap()
            )
        }
        other => other.to_string(),
    };
    around(text, rng)
}

fn spelled_text(text: &str, rng: &mut fastrand::Rng) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        let plain = serde_json::to_string(&char).unwrap();
        match rng.u32(..12) {
            0 => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    out += &format!("\\u{unit:04x}");
                }
            }
            1 => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    out += &format!("\\u{unit:04X}");
                }
            }
            2 if char == '/' => out += "\\/",
            _ => out += &plain[1..plain.len() - 1],
        }
    }
    out + "\""
}

/// A canonical text with one place changed, as a careless sender would leave it.
fn almost(canonical: &str, at: usize) -> String {
    const CHANGES: [(&str, &str); 14] = [
        (",\"", ", \""),
        (":1", ":1.0"),
        (":", ": "),
        ("\"a", "\"\\u0061"),
        ("\"b\":", "\"a\":"),
        ("\"a\":", "\"c\":"),
        ("\u{1f600}", "\u{e000}"),
        ("\u{e000}", "\u{1f600}"),
        ("0", "-0"),
        ("null", "1e21"),
        ("true", "1e+21"),
        ("false", "9007199254740993"),
        ("\\n", "\\u000a"),
        ("}", "} "),
    ];
    let (from, to) = CHANGES[at % CHANGES.len()];
    let places: Vec<_> = canonical.match_indices(from).collect();
    let changed = places
        .get(at / CHANGES.len() % places.len().max(1))
        .map(|(place, _)| [&canonical[..*place], to, &canonical[place + from.len()..]].concat());
    changed
        .filter(|text| serde_json::from_str::<&RawValue>(text).is_ok())
        .unwrap_or_else(|| canonical.to_owned())
}

/// All three ways agree on a text that is well-formed.
fn agree(frame: &str) -> Result<(), TestCaseError> {
    let slow = slow(frame);
    if let Some(fast) = fast(frame) {
        prop_assert_eq!(Ok(&fast), slow.as_ref(), "{}", frame);
    }
    prop_assert_eq!(
        SigningInput::of(frame)
            .map(|input| input.to_text())
            .map_err(|refusal| refusal.code),
        slow.clone()
    );
    let value: &RawValue = serde_json::from_str(frame).unwrap();
    let is_unique = check_duplicate_keys("x", value).is_ok();
    match slow {
        Ok(slow) => {
            // What a signature does not cover may hold anything.
            let members: HashMap<String, &RawValue> = serde_json::from_str(frame).unwrap();
            prop_assert!(is_unique || !members.keys().all(|key| is_covered(key)));
            if is_unique {
                prop_assert_eq!(&slow, &by_library(frame));
            }
            // Only an integer that was written as a float grows beyond what is taken.
            if let Err(code) = agree_again(&slow) {
                prop_assert_eq!(code, Code::UnsafeNumber);
            }
        }
        Err(Code::DuplicateKey) => prop_assert!(!is_unique, "{}", frame),
        Err(code) => prop_assert_eq!(code, Code::UnsafeNumber),
    }
    Ok(())
}

/// What is canonical is taken as it is, by both ways.
fn agree_again(canonical: &str) -> Result<(), Code> {
    let again = slow(canonical)?;
    assert_eq!(again, canonical);
    assert_eq!(fast(canonical).as_deref(), Some(canonical));
    Ok(())
}

proptest! {
    /// The fast path never says other than the slow one, nor this other than a general library.
    #[test]
    fn the_fast_path_equals_the_slow_one(
        members in prop::collection::btree_map("[a-z]{1,2}|signature|harbor|[\u{e000}\u{1f600}]", json(), 0..6),
        seed: u64,
    ) {
        let canonical = serde_json_canonicalizer::to_string(&members).unwrap();
        agree(&canonical)?;
        agree(&serde_json::to_string(&members).unwrap())?;
        let mut rng = fastrand::Rng::with_seed(seed);
        let members = Value::Object(members.into_iter().collect());
        agree(&spelled(&members, &mut rng))?;
        for _ in 0..8 {
            agree(&almost(&canonical, rng.usize(..1_000)))?;
        }
    }

    /// Keys sort by their UTF-16 units, whatever they are.
    #[test]
    fn keys_sort_by_utf16(a in "[a\u{7f}\u{80}\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}", b in "[a\u{7f}\u{80}\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}") {
        prop_assert_eq!(utf16_order(&a, &b), a.encode_utf16().cmp(b.encode_utf16()));
    }

    /// No bytes make it panic.
    #[test]
    fn any_text_is_read_or_refused(frame in ".{0,60}|[{}\\[\\]\",:0-9a-e\\\\ -]{0,40}|[{}\"\\\\u:,a0d8é]{0,20}") {
        let _ = SigningInput::of(&frame);
        let _ = slow(&frame);
    }
}
