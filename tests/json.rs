//! Goal: every frame means one thing to every reader, and what could mean two is refused, with the
//! field, without harm to the connection or the process.
//! Method: one valid frame with one thing changed, sent as text by an agent; a look at what arrived.

use serde_json::{Value, json};

use crate::support::{
    Agent, Harbor,
    agent::{new_id, refusal_of},
};

/// Two agents on one Harbor.
struct Pair {
    harbor: Harbor,
    a: Agent,
    b: Agent,
}

impl Pair {
    async fn start() -> Pair {
        let harbor = Harbor::start().await;
        let a = Agent::register(&harbor, "a").await;
        let b = Agent::register(&harbor, "b").await;
        Pair { harbor, a, b }
    }

    /// Sends this frame, which must arrive as it is.
    async fn arrives(&mut self, frame: &str) {
        self.a.send_text(frame).await;
        let answer = self.a.next().await;
        assert_eq!(answer["type"], "synapse.accepted", "{frame}: {answer}");
        assert_eq!(answer["payload"]["recipients"], 1, "{frame}");
        assert_eq!(self.b.next_text().await, frame);
    }

    /// Sends this frame, which must be refused with this code and field.
    async fn refused(&mut self, frame: &str, code: &str, field: &str) {
        self.a.send_text(frame).await;
        let answer = self.a.next().await;
        let shown: String = frame.chars().take(300).collect();
        assert_eq!(answer["type"], "synapse.refused", "{shown}: {answer}");
        let told = refusal_of(&answer);
        assert_eq!((told.0.as_str(), told.1.as_str()), (code, field), "{shown}");
    }

    /// Nothing was routed but what the test took, and the connection lives on.
    async fn is_well(&mut self) {
        assert_eq!(self.b.received().await, Vec::<Value>::new());
        assert_eq!(
            self.a.deliver(json!({"receiver": {"agent_id": "b"}})).await,
            1
        );
        assert_eq!(self.b.received().await.len(), 1);
        assert_eq!(self.harbor.metric("harbor_agents"), 2.0);
    }
}

/// A frame from `a` to `b`, with members put in front and this payload.
fn frame(extra: &str, payload: &str) -> String {
    typed("chat", extra, payload)
}

fn typed(kind: &str, extra: &str, payload: &str) -> String {
    let id = new_id();
    format!(
        r#"{{{extra}"id":"{id}","version":"1.0.0","type":"{kind}","sender":{{"agent_id":"a"}},"receiver":{{"agent_id":"b"}},"payload":{payload},"timestamp":"2026-03-01T12:00:00Z"}}"#
    )
}

/// T19: a key given twice is refused wherever Harbor or a signature reads it; an unsigned payload
/// is the application's own.
#[tokio::test]
async fn duplicate_keys() {
    let mut pair = Pair::start().await;
    let twice = "duplicate_key";
    for (extra, field) in [
        (r#""receiver":{"agent_id":"c"},"#, "receiver"),
        (r#""receiver":{"agent_id":"b"},"#, "receiver"),
        (r#""sender":{"agent_id":"a"},"#, "sender"),
        (r#""id":"m1","#, "id"),
        (r#""payload":{},"#, "payload"),
        (r#""ttl":1,"ttl":1,"#, "ttl"),
        (r#""group_id":null,"group_id":null,"#, "group_id"),
        (r#""x-own":1,"x-own":1,"#, "x-own"),
        (r#""\u0074ype":"chat","#, "type"),
        (r#""receive\u0072":{"agent_id":"c"},"#, "receiver"),
    ] {
        pair.refused(&frame(extra, "{}"), twice, field).await;
    }
    for (endpoint, field) in [
        (r#"{"agent_id":"a","agent_id":"a"}"#, "sender.agent_id"),
        (r#"{"agent_id":"a","\u0061gent_id":"b"}"#, "sender.agent_id"),
        (
            r#"{"agent_id":"a","capabilities":[],"capabilities":["x"]}"#,
            "sender.capabilities",
        ),
        (r#"{"agent_id":"a","x":1,"x":2}"#, "sender"),
    ] {
        let frame = frame("", "{}").replace(r#"{"agent_id":"a"}"#, endpoint);
        pair.refused(&frame, twice, field).await;
    }
    let signed = r#""signature":"c2ln","signature_algorithm":"Ed25519","#;
    for payload in [
        r#"{"n":1,"n":2}"#,
        r#"{"n":1,"\u006e":2}"#,
        r#"[[{"deep":{"k":null,"k":null}}]]"#,
    ] {
        pair.arrives(&frame("", payload)).await;
        pair.refused(&frame(signed, payload), twice, "payload")
            .await;
    }
    pair.is_well().await;
}

/// T20: half of a surrogate pair is refused at any depth, in keys too; whole pairs, also escaped
/// ones, pass byte for byte.
#[tokio::test]
async fn lone_surrogates() {
    let mut pair = Pair::start().await;
    for lone in [
        r"\ud800",
        r"\udc00",
        r"\ud83c\ud83c",
        r"\uDBFF-\uDC00",
        r"\\\uD800",
    ] {
        for payload in [
            format!(r#""{lone}""#),
            format!(r#"[{{"k":[["{lone}"]]}}]"#),
            format!(r#"{{"{lone}":1}}"#),
        ] {
            pair.refused(&frame("", &payload), "invalid_unicode", "payload")
                .await;
        }
        let member = format!(r#""x-own":"{lone}","#);
        pair.refused(&frame(&member, "{}"), "invalid_unicode", "x-own")
            .await;
        let name = frame("", "{}").replace(r#""a""#, &format!(r#""{lone}""#));
        pair.refused(&name, "invalid_unicode", "sender").await;
    }
    for whole in [
        r"\ud83d\ude00",
        "😀",
        r"\\ud800",
        r"\u0000",
        r"\uFFFF",
        "\u{FFFF}",
    ] {
        let payload = format!(r#"{{"{whole}":["{whole}"]}}"#);
        pair.arrives(&frame("", &payload)).await;
    }
    pair.is_well().await;
}

/// T22: whether a payload passes does not depend on the message's type.
#[tokio::test]
async fn every_type_is_read_alike() {
    let mut pair = Pair::start().await;
    let payloads = [
        r#""\ud83d\ude00\u0000\/""#,
        r#"{"type":"chat","type":"other","":null}"#,
        "1e400",
        "-0.0",
        "123456789012345678901234567890",
        "\"\u{7f}\u{2028}\"",
        r#"{"$serde_json::private::RawValue":"x"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
        "null",
        "[]",
    ];
    let broken = [
        "01", "1.", ".5", "+1", "NaN", "tru", "'x'", "\"\t\"", "[1,]", "{1:2}", "",
    ];
    for kind in [
        "chat",
        "omni.message",
        "agent.event",
        "synapses",
        "T",
        "類型",
    ] {
        for payload in payloads {
            pair.arrives(&typed(kind, "", payload)).await;
        }
        for payload in broken {
            let frame = typed(kind, "", payload);
            pair.a.send_text(&*frame).await;
            assert_eq!(refusal_of(&pair.a.next().await).0, "malformed", "{frame}");
        }
        pair.refused(
            &typed(kind, "", r#""\ud800""#),
            "invalid_unicode",
            "payload",
        )
        .await;
    }
    pair.is_well().await;
}

/// T23: deep nesting is refused by name wherever it stands, whatever its depth, and ends nothing.
#[tokio::test]
async fn nesting() {
    let mut pair = Pair::start().await;
    let nested = |levels: usize, (open, close): (&str, &str)| {
        format!("{}1{}", open.repeat(levels), close.repeat(levels))
    };
    let shapes = [("[", "]"), (r#"{"k":"#, "}"), (r#"[{"k":"#, "}]")];
    for shape in shapes {
        let levels_each = shape.1.len();
        // The envelope's own braces are one level of 128.
        let fits = 127 / levels_each;
        pair.arrives(&frame("", &nested(fits, shape))).await;
        pair.arrives(&frame(&format!(r#""x-own":{},"#, nested(fits, shape)), "1"))
            .await;
        for levels in [fits + 1, 129, 1_000, 100_000] {
            let deep = nested(levels, shape);
            pair.refused(&frame("", &deep), "too_deep", "payload").await;
            let member = format!(r#""x-own":{deep},"#);
            pair.refused(&frame(&member, "1"), "too_deep", "x-own")
                .await;
            let endpoint = frame("", "1").replace(r#""a""#, &format!(r#""a","x":{deep}"#));
            pair.refused(&endpoint, "too_deep", "sender").await;
        }
    }
    for unclosed in ["[".repeat(100_000), r#"{"a":"#.repeat(100_000)] {
        pair.a.send_text(&*unclosed).await;
        assert_eq!(refusal_of(&pair.a.next().await).0, "too_deep");
        pair.a.send_text(frame("", &unclosed)).await;
        assert_eq!(refusal_of(&pair.a.next().await).0, "too_deep");
    }
    let in_text = format!(r#""{}""#, "[{".repeat(10_000));
    pair.arrives(&frame("", &in_text)).await;
    pair.is_well().await;
}

/// T23: a register frame, read before anybody is known, is no softer.
#[tokio::test]
async fn nesting_before_registration() {
    let harbor = Harbor::start().await;
    let mut peer = Agent::connect(&harbor).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    peer.send_text(frame("", &deep)).await;
    assert_eq!(refusal_of(&peer.next().await).0, "too_deep");
    let answer = peer.try_register(json!({"agent_id": "x"}), json!({})).await;
    assert_eq!(answer["type"], "synapse.registered");
}

/// T24: a byte order mark and bytes behind the object are refused with the cause; NUL is refused in
/// ids and kept in payloads.
#[tokio::test]
async fn marks_trailing_bytes_and_nul() {
    let mut pair = Pair::start().await;
    let whole = frame("", "{}");
    for (text, cause) in [
        (format!("\u{feff}{whole}"), "byte order mark"),
        (format!("{whole}\0"), "after the closing brace"),
        (format!("{whole}{whole}"), "after the closing brace"),
        (format!("{whole},"), "after the closing brace"),
        (format!("\0{whole}"), "not a JSON object"),
        (format!("\u{a0}{whole}"), "not a JSON object"),
        (format!("[{whole}]"), "not a JSON object"),
        (String::new(), "not a JSON object"),
        (" ".to_owned(), "not a JSON object"),
    ] {
        pair.a.send_text(&*text).await;
        let answer = pair.a.next().await;
        assert_eq!(refusal_of(&answer).0, "malformed", "{text}");
        let reason = answer["payload"]["reason"].as_str().unwrap();
        assert!(reason.contains(cause), "{reason:?} for {text:?}");
    }
    for (from, to, field) in [
        (r#""id":""#, r#""id":"\u0000"#, "id"),
        (r#""chat""#, r#""ch\u0000at""#, "type"),
        (
            r#"{"agent_id":"a"}"#,
            r#"{"agent_id":"a\u0000"}"#,
            "sender.agent_id",
        ),
        (
            r#"{"agent_id":"b"}"#,
            r#"{"agent_id":"b\u0000"}"#,
            "receiver.agent_id",
        ),
        (
            r#"{"agent_id":"b"}"#,
            r#"{"agent_id":"b","system_id":"\u0000"}"#,
            "receiver.system_id",
        ),
        (r#""id""#, r#""group_id":"\u0000","id""#, "group_id"),
        (
            r#""id""#,
            r#""correlation_id":"\u0000","id""#,
            "correlation_id",
        ),
        (
            r#""id""#,
            r#""conversation_id":"\u0000","id""#,
            "conversation_id",
        ),
        (r#""id""#, r#""reply_to":"x\u0000","id""#, "reply_to"),
        (r#""id""#, r#""target_ids":["\u0000"],"id""#, "target_ids"),
    ] {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole);
        pair.refused(&text, "invalid_field", field).await;
    }
    pair.arrives(&frame("", r#"{"\u0000":"a\u0000b"}"#)).await;
    pair.arrives(&format!(" \r\n\t{whole}\n\n")).await;
    pair.is_well().await;
}

/// T26: a payload arrives as the bytes it was, whatever a parser would make of them.
#[tokio::test]
async fn payload_bytes_out_are_the_bytes_in() {
    let mut pair = Pair::start().await;
    for payload in [
        "{ \"b\" : 1 ,\n\t\"a\":2 }",
        "[1.0, 1.50, 1e2, 1E+2, -0, -0.0, 0.1e-7, 9007199254740993, 18446744073709551616]",
        r#""\u00e9\u4f60\/\b\f""#,
        "\"é你👩‍🚀\u{202e}\u{0301}\"",
        r#"{"":"","a":{"a":{"a":"a"}}}"#,
        "   [ ]   ",
        "true",
    ] {
        pair.arrives(&frame("", payload)).await;
    }
    // Harbor's own fields may be spelt in any way JSON allows.
    let escaped = r#" { "\u0069d":"m\u0031","version":"1.0.0","type":"\u0063hat" , "sender":{"agent_\u0069d":"\u0061"},"receiver":{"agent_id":"\u0062"},"payload":[ ],"timestamp":"2026-03-01T12:00:00\u005a" } "#;
    pair.arrives(escaped).await;
    pair.is_well().await;
}

/// T26: fields this version does not know are kept and forwarded, at the top and in endpoints.
#[tokio::test]
async fn unknown_fields_are_kept() {
    let mut pair = Pair::start().await;
    for extra in [
        r#""x-trace":{"id":"4bf9","flags":[1]},"#,
        r#""":0,"#,
        r#""Harbor":{"seq":1},"PAYLOAD":2,"#,
        r#""ключ":null,"\u006b":true,"k ":1,"#,
    ] {
        pair.arrives(&frame(extra, "{}")).await;
    }
    let endpoints = frame("", "{}")
        .replace(r#"{"agent_id":"a"}"#, r#"{"agent_id":"a","x":{"y":[1]}}"#)
        .replace(r#"{"agent_id":"b"}"#, r#"{"agent_id":"b","region":"eu"}"#);
    pair.arrives(&endpoints).await;
    pair.is_well().await;
}

/// `harbor` is Harbor's own member in any form: a second one spliced in behind a sender's `null`
/// would be a duplicate key to the receiver.
#[tokio::test]
async fn the_harbor_member_is_harbors_own() {
    let mut pair = Pair::start().await;
    for member in [
        r#""harbor":{"seq":1},"#,
        r#""harbor":{},"#,
        r#""harbor":0,"#,
        r#""harbor":"","#,
        r#""harbor":null,"#,
        r#""\u0068arbor":null,"#,
    ] {
        pair.refused(&frame(member, "{}"), "reserved_field", "harbor")
            .await;
    }
    pair.is_well().await;
}
