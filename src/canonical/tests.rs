//! Goal: the bytes that are covered are those of RFC 8785, whichever path finds them.
//! Method: samples of the RFC, cuts at every place, and the fast path against the slow one.

use proptest::prelude::*;

use super::*;

fn covered(frame: &str) -> String {
    SigningInput::of(frame).unwrap().to_text()
}

fn fast(frame: &str) -> Option<String> {
    scan::canonical_pieces(frame).map(|pieces| pieces.concat())
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
        assert_eq!(
            SigningInput::rewritten(frame).unwrap().to_text(),
            want,
            "{frame}"
        );
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
    ] {
        assert_eq!(
            SigningInput::of(frame).unwrap_err().code,
            Code::UnsafeNumber,
            "{frame}"
        );
    }
    let twice = r#"{"x":{"a":1,"a":2}}"#;
    assert_eq!(
        SigningInput::of(twice).unwrap_err().code,
        Code::DuplicateKey
    );
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

proptest! {
    /// The fast path never says other than the slow one, and takes what the slow one wrote.
    #[test]
    fn the_fast_path_equals_the_slow_one(
        members in prop::collection::btree_map("[a-z]{1,2}|signature|harbor|[\u{e000}\u{1f600}]", json(), 0..6),
    ) {
        let canonical = serde_json_canonicalizer::to_string(&members).unwrap();
        let plain = serde_json::to_string(&members).unwrap();
        for frame in [&canonical, &plain] {
            let slow = SigningInput::rewritten(frame);
            if let Some(fast) = fast(frame) {
                prop_assert_eq!(&fast, &slow.clone().unwrap().to_text());
            }
            if let Ok(slow) = slow {
                prop_assert_eq!(SigningInput::of(frame).unwrap().to_text(), slow.to_text());
            }
        }
    }

    /// No bytes make it panic.
    #[test]
    fn any_text_is_read_or_refused(frame in ".{0,60}|[{}\\[\\]\",:0-9a-e\\\\ -]{0,40}") {
        let _ = SigningInput::of(&frame);
    }
}
