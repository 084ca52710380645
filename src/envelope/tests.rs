//! Goal: an envelope means the same to every reader, and is refused at the edge when it could not.
//! Method: tables of frames made from one valid frame by changing one member, and properties over
//! arbitrary bytes, texts and payloads.

use proptest::prelude::*;

use super::*;
use crate::refusal::Code;

/// A valid frame with `extra` members spliced in first, `""` for none.
fn frame(extra: &str) -> String {
    format!(
        r#"{{{extra}"id":"m1","version":"1.0.0","type":"chat","sender":{{"agent_id":"a"}},"receiver":{{"agent_id":"b"}},"payload":{{"n":1}},"timestamp":"2026-03-01T12:00:00Z"}}"#
    )
}

fn refusal(frame: &str) -> (Code, Option<String>) {
    let refused = Envelope::decode(frame).expect_err(frame);
    (
        refused.refusal.code,
        refused.refusal.field.map(Cow::into_owned),
    )
}

#[test]
fn every_field_is_read() {
    let text = r#"{"id":"m","version":"1.2.3","type":"t","sender":{"agent_id":"a","agent_name":"A","endpoint":"e","system_id":"s","version":"v","capabilities":["c","d"]},"receiver":{"agent_id":"b","system_id":"s2"},"correlation_id":"co","reply_to":"r","group_id":"g","payload":[1, 2.50],"timestamp":"2026-03-01T12:00:00+08:00","signature":"sig","conversation_id":"cv","ttl":30,"broadcast":true,"encrypt":true,"target_type":"role","target_ids":["x","y"],"signature_algorithm":"Ed25519","priority":9,"expires_at":"2026-03-01T13:00:00Z","harbor":{"seq":1},"later":{"k":"v"}}"#;
    let envelope = Envelope::decode(text).unwrap();
    assert_eq!(
        (&*envelope.id, &*envelope.version, &*envelope.kind),
        ("m", "1.2.3", "t")
    );
    assert_eq!(envelope.sender.capabilities, ["c", "d"]);
    assert_eq!(
        (&*envelope.sender.agent_name, &*envelope.sender.endpoint),
        ("A", "e")
    );
    assert_eq!(
        (&*envelope.sender.system_id, &*envelope.sender.version),
        ("s", "v")
    );
    assert_eq!(envelope.receiver.as_ref().unwrap().system_id, "s2");
    assert_eq!(
        (
            &*envelope.correlation_id,
            &*envelope.reply_to,
            &*envelope.group_id
        ),
        ("co", "r", "g")
    );
    assert_eq!(envelope.payload.get(), "[1, 2.50]");
    assert_eq!(envelope.timestamp.as_str(), "2026-03-01T12:00:00+08:00");
    assert_eq!(
        (&*envelope.signature, &*envelope.conversation_id),
        ("sig", "cv")
    );
    assert_eq!(
        (envelope.ttl_seconds, envelope.broadcast, envelope.encrypt),
        (30, true, true)
    );
    assert_eq!(
        (envelope.target_type, envelope.target_ids.len()),
        (TargetType::Role, 2)
    );
    assert_eq!(
        (&*envelope.signature_algorithm, envelope.priority),
        ("Ed25519", 9)
    );
    assert_eq!(
        envelope.expires_at.as_ref().unwrap().as_str(),
        "2026-03-01T13:00:00Z"
    );
    assert_eq!(envelope.harbor.as_ref().unwrap().get(), r#"{"seq":1}"#);
    assert_eq!(envelope.other[0].0, "later");
    let without_harbor = text.replace(r#","harbor":{"seq":1}"#, "");
    assert_eq!(
        envelope.to_json(),
        without_harbor,
        "builds what was read, in the same order"
    );
    assert_eq!(envelope.into_owned().to_json(), without_harbor);
}

#[test]
fn absent_zero_value_and_null_mean_the_same() {
    let plain = Envelope::decode(&frame("")).unwrap().to_json();
    let zero = r#""correlation_id":"","reply_to":"","group_id":"","signature":"","conversation_id":"","ttl":0,"broadcast":false,"encrypt":false,"target_type":"","target_ids":[],"signature_algorithm":"","priority":0,"expires_at":"","#;
    assert_eq!(Envelope::decode(&frame(zero)).unwrap().to_json(), plain);
    let null = r#""correlation_id":null,"reply_to":null,"group_id":null,"signature":null,"conversation_id":null,"ttl":null,"broadcast":null,"encrypt":null,"target_type":null,"target_ids":null,"signature_algorithm":null,"priority":null,"expires_at":null,"#;
    assert_eq!(Envelope::decode(&frame(null)).unwrap().to_json(), plain);
    for receiver in [
        "null",
        "{}",
        r#"{"agent_id":"","system_id":"","capabilities":null}"#,
    ] {
        let text = frame("").replace(r#"{"agent_id":"b"}"#, receiver);
        assert!(
            Envelope::decode(&text).unwrap().receiver.is_none(),
            "{receiver}"
        );
    }
    let payload_null = frame("").replace(r#"{"n":1}"#, "null");
    assert_eq!(
        Envelope::decode(&payload_null).unwrap().payload.get(),
        "null"
    );
}

#[test]
fn a_harbor_member_counts_also_when_it_is_null() {
    let text = frame(r#""harbor":null,"#);
    let envelope = Envelope::decode(&text).unwrap();
    assert_eq!(envelope.harbor.unwrap().get(), "null");
}

#[test]
fn missing_fields_are_named() {
    for (member, field) in [
        (r#""id":"m1","#, "id"),
        (r#""version":"1.0.0","#, "version"),
        (r#""type":"chat","#, "type"),
        (r#""sender":{"agent_id":"a"},"#, "sender.agent_id"),
        (r#""payload":{"n":1},"#, "payload"),
        (r#","timestamp":"2026-03-01T12:00:00Z""#, "timestamp"),
    ] {
        let text = frame("").replace(member, "");
        assert_eq!(refusal(&text), (Code::MissingField, Some(field.into())));
    }
    let nulls = frame("")
        .replace(r#""m1""#, "null")
        .replace(r#"{"agent_id":"b"}"#, r#"{"agent_name":"x"}"#);
    assert_eq!(
        refusal(&nulls),
        (Code::MissingField, Some("receiver.agent_id".into()))
    );
}

#[test]
fn wrong_types_and_ranges_name_the_field() {
    for (member, field) in [
        (r#""ttl":-1,"#, "ttl"),
        (r#""ttl":1.5,"#, "ttl"),
        (r#""ttl":60.0,"#, "ttl"),
        (r#""ttl":"60","#, "ttl"),
        (r#""ttl":true,"#, "ttl"),
        (r#""priority":10,"#, "priority"),
        (r#""priority":-1,"#, "priority"),
        (r#""priority":4.5,"#, "priority"),
        (r#""broadcast":"true","#, "broadcast"),
        (r#""encrypt":1,"#, "encrypt"),
        (r#""target_type":"roles","#, "target_type"),
        (r#""target_ids":"x","#, "target_ids"),
        (r#""target_ids":[1],"#, "target_ids"),
        (r#""target_ids":[null],"#, "target_ids"),
        (r#""group_id":7,"#, "group_id"),
        (r#""group_id":"a\u0000b","#, "group_id"),
        (r#""reply_to":["x"],"#, "reply_to"),
        (r#""expires_at":"tomorrow","#, "expires_at"),
        (r#""expires_at":1767225600,"#, "expires_at"),
    ] {
        assert_eq!(
            refusal(&frame(member)),
            (Code::InvalidField, Some(field.into())),
            "{member}"
        );
    }
    let sender = |to: &str| frame("").replace(r#""sender":{"agent_id":"a"}"#, to);
    for (member, field) in [
        (r#""sender":"a""#, "sender"),
        (r#""sender":{"agent_id":1}"#, "sender.agent_id"),
        (
            r#""sender":{"agent_id":"a","capabilities":"x"}"#,
            "sender.capabilities",
        ),
        (r#""sender":{"agent_id":"a\nb"}"#, "sender.agent_id"),
    ] {
        assert_eq!(
            refusal(&sender(member)),
            (Code::InvalidField, Some(field.into())),
            "{member}"
        );
    }
}

#[test]
fn ttl_takes_zero_and_is_clamped_when_huge() {
    for (ttl, read) in [
        ("0", 0),
        ("60", 60),
        ("2147483648", 1 << 31),
        ("9007199254740992", 1 << 53),
        ("18446744073709551615", u64::MAX),
        ("18446744073709551616", u64::MAX),
        ("1000000000000000000000000000000", u64::MAX),
    ] {
        let text = frame(&format!(r#""ttl":{ttl},"#));
        assert_eq!(Envelope::decode(&text).unwrap().ttl_seconds, read, "{ttl}");
    }
}

#[test]
fn duplicate_keys_are_refused_where_two_readers_could_differ() {
    for (member, field) in [
        (r#""receiver":{"agent_id":"c"},"#, "receiver"),
        (r#""\u0069d":"m2","#, "id"),
        (r#""x":1,"x":2,"#, "x"),
        (r#""harbor":null,"harbor":null,"#, "harbor"),
    ] {
        assert_eq!(
            refusal(&frame(member)),
            (Code::DuplicateKey, Some(field.into())),
            "{member}"
        );
    }
    let endpoint = frame("").replace(r#"{"agent_id":"a"}"#, r#"{"agent_id":"a","agent_id":"z"}"#);
    assert_eq!(
        refusal(&endpoint),
        (Code::DuplicateKey, Some("sender.agent_id".into()))
    );
    let unknown = frame("").replace(r#"{"agent_id":"a"}"#, r#"{"agent_id":"a","x":1,"x":2}"#);
    assert_eq!(
        refusal(&unknown),
        (Code::DuplicateKey, Some("sender".into()))
    );
    let payload = frame("").replace(r#"{"n":1}"#, r#"{"n":1,"n":2}"#);
    assert!(
        Envelope::decode(&payload).is_ok(),
        "an unsigned payload is opaque"
    );
    let signed = payload.replacen('{', r#"{"signature":"s","#, 1);
    assert_eq!(
        refusal(&signed),
        (Code::DuplicateKey, Some("payload".into()))
    );
}

#[test]
fn what_is_not_one_json_object() {
    let whole = frame("");
    for text in [
        String::new(),
        "null".into(),
        "[1]".into(),
        "\"x\"".into(),
        "{".into(),
        "{}}".into(),
        whole[..whole.len() - 1].to_owned(),
        format!("{whole}{whole}"),
        format!("{whole}\0"),
        format!("\u{feff}{whole}"),
        whole.replace("\"m1\"", "'m1'"),
        whole.replace("{\"n\":1}", "{n:1}"),
        whole.replace("{\"n\":1}", "01"),
        whole.replace("{\"n\":1}", "[1,]"),
        whole.replace("{\"n\":1}", "NaN"),
        whole.replace("{\"n\":1}", "\"a\u{1}b\""),
    ] {
        let (code, _) = refusal(&text);
        let missing_all = text == "{}}";
        assert!(
            code == Code::Malformed || missing_all,
            "{code} for {text:?}"
        );
    }
    assert!(
        Envelope::decode(&format!(" \r\n\t{whole}\n ")).is_ok(),
        "white space around is JSON"
    );
}

#[test]
fn the_id_of_a_refused_frame_is_told_where_it_can_be_read() {
    let id = |text: &str| Envelope::decode(text).expect_err(text).id;
    assert_eq!(id(&frame(r#""ttl":-1,"#)).as_deref(), Some("m1"));
    assert_eq!(id(&format!("{} x", frame(""))).as_deref(), Some("m1"));
    assert_eq!(id(&frame(r#""id":"m2","#)), None, "two ids are none");
    assert_eq!(id("{"), None);
}

#[test]
fn versions() {
    for version in ["1.0.0", "1.9", "1"] {
        assert!(
            Envelope::decode(&frame("").replace("1.0.0", version)).is_ok(),
            "{version}"
        );
    }
    for version in ["2.0.0", "0.9.0", "10.0.0", "v1", " 1.0.0"] {
        let text = frame("").replace("1.0.0", version);
        assert_eq!(
            refusal(&text),
            (Code::UnsupportedVersion, Some("version".into())),
            "{version}"
        );
    }
}

#[test]
fn empty_targets_mean_nobody_and_are_refused() {
    let code = |members: &str| {
        let text = frame(&format!(r#""group_id":"g",{members}"#));
        Envelope::decode(&text)
            .unwrap()
            .destination("s")
            .map(|_| ())
            .map_err(|refusal| refusal.code)
    };
    assert_eq!(
        code(r#""target_type":"specific","target_ids":[],"#),
        Err(Code::EmptyTargets)
    );
    assert_eq!(code(r#""target_type":"role","#), Err(Code::EmptyTargets));
    assert_eq!(
        code(r#""target_type":"role","target_ids":[""],"#),
        Err(Code::InvalidField)
    );
    assert_eq!(code(r#""target_type":"all","target_ids":[""],"#), Ok(()));
    assert_eq!(
        code(r#""target_type":"role","target_ids":["r","r"],"#),
        Ok(())
    );
}

#[test]
fn splicing_keeps_every_byte_before_the_brace() {
    let text = format!("{} \n", frame(""));
    let spliced = splice_harbor(&text, r#"{"seq":7}"#);
    assert!(spliced.starts_with(text.trim_end().strip_suffix('}').unwrap()));
    let envelope = Envelope::decode(&spliced).unwrap();
    assert_eq!(envelope.harbor.unwrap().get(), r#"{"seq":7}"#);
    assert_eq!(envelope.payload.get(), r#"{"n":1}"#);
}

/// Any JSON value, as text with odd spacing.
fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>()
            .prop_filter("finite", |n| n.is_finite())
            .prop_map(|n| format!("{n:e}")),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|v| format!("[ {} ]", v.join(" ,\t"))),
            prop::collection::vec((any::<String>(), inner), 0..5).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(k, v)| format!("{} : {v}", serde_json::to_string(k).unwrap()))
                    .collect();
                format!("{{\n{}}}", members.join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn decoding_arbitrary_text_never_panics(text in any::<String>()) {
        let _ = Envelope::decode(&text);
    }

    #[test]
    fn decoding_a_damaged_frame_never_panics(
        at in any::<prop::sample::Index>(),
        length in 0_usize..8,
        insert in ".{0,4}",
    ) {
        let mut text = frame(r#""group_id":"g","target_ids":["\ud83d\ude00"],"ttl":5,"x":[1],"#);
        let positions: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let start = at.index(positions.len());
        let end = (start + length).min(positions.len() - 1).max(start);
        text.replace_range(positions[start]..positions[end], &insert);
        if let Ok(envelope) = Envelope::decode(&text) {
            let again = envelope.to_json();
            prop_assert!(Envelope::decode(&again).is_ok(), "{again}");
        }
    }

    #[test]
    fn payload_bytes_out_are_the_bytes_in(payload in json_text()) {
        let text = frame("").replace(r#"{"n":1}"#, &payload);
        let envelope = Envelope::decode(&text).unwrap();
        prop_assert_eq!(envelope.payload.get(), payload.as_str());
        let built = envelope.into_owned().to_json();
        let again = Envelope::decode(&built).unwrap();
        prop_assert_eq!(again.payload.get(), payload.as_str());
    }
}
