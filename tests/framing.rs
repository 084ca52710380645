//! Goal: whatever bytes come over a WebSocket, whole messages arrive whole, broken ones are never
//! routed, the peer is told why, and nothing grows without bound.
//! Method: hand-made frames over raw TCP, each rule of RFC 6455 kept and broken in turn.

use std::sync::atomic::{AtomicUsize, Ordering};

use harbor::Settings;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{
    Agent, Harbor, Raw, SOON,
    agent::new_id,
    raw::{self, CLOSE, CONTINUATION, FIN, PING, PONG, TEXT, close_payload, frame},
};

/// An envelope from `from` to `to`.
fn chat(from: &str, to: &str, payload: &Value) -> Value {
    json!({
        "id": new_id(), "version": "1.0.0", "type": "chat", "sender": {"agent_id": from},
        "receiver": {"agent_id": to}, "payload": payload, "timestamp": "2026-03-01T12:00:00Z",
    })
}

/// A frame of exactly `length` bytes from `a` to the group `g`; 125 is the shortest.
fn of_length(length: usize) -> String {
    static IDS: AtomicUsize = AtomicUsize::new(0);
    // A character each: no test sends as many, and the shortest frame has room for no more.
    let letters = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let id = char::from(letters[IDS.fetch_add(1, Ordering::Relaxed) % letters.len()]);
    let frame = |filler: &str| {
        format!(
            r#"{{"id":"{id}","version":"1","type":"t","sender":{{"agent_id":"a"}},"group_id":"g","payload":"{filler}","timestamp":"2026-03-01T12:00:00Z"}}"#
        )
    };
    let text = frame(&"x".repeat(length - frame("").len()));
    assert_eq!(text.len(), length);
    text
}

async fn with_frames_of(max_frame_bytes: usize) -> Harbor {
    Harbor::with(Settings {
        max_frame_bytes: Some(max_frame_bytes),
        ..Settings::default()
    })
    .await
}

/// T02: nothing that comes after a peer's Close is routed, and nothing is written after ours.
#[tokio::test]
async fn a_close_ends_both_directions() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let mut a = Raw::register(&harbor, "a").await;
    let late = raw::text(&chat("a", "bob", &json!("late")));
    let bytes = [
        frame(FIN | CLOSE, &close_payload(1000, b"")),
        late.clone(),
        late,
    ]
    .concat();
    a.write(&bytes).await;
    let closed = a.next_frame().await.unwrap();
    assert_eq!(closed.first, FIN | CLOSE, "the answer to Close comes first");
    while bob.deliver(json!({"receiver": {"agent_id": "a"}})).await > 0 {}
    a.ended().await;
    assert_eq!(bob.received().await, Vec::<Value>::new());
}

/// T03: any kind of Close is answered in kind, and the TCP connection ends at once.
#[tokio::test]
async fn every_close_is_answered_and_the_connection_ends() {
    let harbor = Harbor::start().await;
    for (payload, answered) in [
        (vec![], 0),
        (close_payload(1000, b""), 1000),
        (close_payload(1001, b"tab closed"), 1001),
        (close_payload(3000, b""), 3000),
        (close_payload(4999, "再见".as_bytes()), 4999),
        (close_payload(1000, &[b'x'; 123]), 1000),
        // RFC 6455 section 7.4.1: these never stand in a frame.
        (close_payload(999, b""), 1002),
        (close_payload(1005, b""), 1002),
        (close_payload(1006, b""), 1002),
        (close_payload(5000, b""), 1002),
        (vec![3], 1002),
    ] {
        let mut peer = Raw::register(&harbor, "peer").await;
        let asked_at = Instant::now();
        peer.write(&frame(FIN | CLOSE, &payload)).await;
        assert_eq!(peer.close_code().await, Some(answered), "{payload:?}");
        assert!(asked_at.elapsed() < SOON / 4, "{payload:?}");
    }
    harbor.is_empty().await;
}

/// T03: a Close is answered also when it is the last thing a half-closed connection says.
#[tokio::test]
async fn a_close_followed_by_the_end_of_the_stream_is_answered() {
    use tokio::io::AsyncWriteExt;
    let harbor = Harbor::start().await;
    let mut peer = Raw::register(&harbor, "peer").await;
    peer.write(&frame(FIN | CLOSE, &[])).await;
    peer.tcp.shutdown().await.unwrap();
    assert_eq!(peer.close_code().await, Some(0));
    harbor.is_empty().await;
}

/// T04: what a peer sends between our Close and its own is neither answered nor routed.
#[tokio::test]
async fn frames_after_our_close_are_passed_over() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let mut older = Raw::register(&harbor, "a").await;
    let mut newer = Raw::register(&harbor, "a").await;
    assert_eq!(older.closed().await.unwrap().0, 4001);
    let bytes = [
        frame(FIN | PING, b"late ping"),
        raw::text(&chat("a", "bob", &json!("late"))),
        frame(FIN | CLOSE, &close_payload(1000, b"")),
    ]
    .concat();
    older.write(&bytes).await;
    older.ended().await;
    newer.write(&frame(FIN | PING, b"alive")).await;
    let pong = newer.next_frame().await.unwrap();
    assert_eq!((pong.first, pong.payload), (FIN | PONG, b"alive".to_vec()));
    assert_eq!(bob.received().await, Vec::<Value>::new());
}

/// T06: the limit is told in the challenge, is inclusive, and one byte more gets 1009 with the
/// limit's name, which also a peer that is still writing can read.
#[tokio::test]
async fn frames_up_to_the_limit_and_not_one_byte_more() {
    let limit = 1 << 20;
    let harbor = Harbor::start().await;
    let mut bob = Agent::in_groups(&harbor, "bob", &[("g", &[])]).await;
    assert_eq!(bob.challenge["max_frame_bytes"], limit);
    let mut a = Raw::register(&harbor, "a").await;
    for length in [limit - 1, limit] {
        let text = of_length(length);
        a.write(&frame(FIN | TEXT, text.as_bytes())).await;
        assert_eq!(bob.next_text().await, text);
        assert_eq!(a.next_json().await["type"], "synapse.accepted");
    }
    a.write(&frame(FIN | TEXT, of_length(limit + 1).as_bytes()))
        .await;
    for _ in 0..16 {
        if !a.try_write(&vec![0; 256 * 1024]).await {
            break;
        }
    }
    let (code, reason) = a.closed().await.unwrap();
    assert_eq!(code, 1009);
    assert!(reason.contains("max_frame_bytes"), "{reason}");
    assert_eq!(bob.received().await, Vec::<Value>::new());
    assert_eq!(
        harbor.metric_with("harbor_connections_closed_total", "too_large"),
        1.0
    );
}

/// T06: a length that is only claimed reserves nothing and is refused before its bytes come.
#[tokio::test]
async fn a_claimed_length_is_refused_at_once() {
    let harbor = Harbor::start().await;
    for length in [(1 << 20) + 1, 1 << 31, 1 << 40, 1 << 62] {
        let mut a = Raw::register(&harbor, "a").await;
        let mut start = raw::header(FIN | TEXT, length);
        start[1] |= 0x80;
        start.extend([0; 4]);
        a.write(&start).await;
        assert_eq!(a.close_code().await, Some(1009), "{length}");
    }
    let mut a = Raw::register(&harbor, "a").await;
    a.write(&[FIN | TEXT, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0])
        .await;
    let code = a.close_code().await.unwrap();
    assert!(code == 1009 || code == 1002, "{code}: a negative length");
}

/// T07: fragments without end are bounded, by their bytes and by their headers; others do not
/// notice.
#[tokio::test]
async fn endless_fragments_are_too_large() {
    let limit = 64 * 1024;
    let harbor = with_frames_of(limit).await;
    let mut alice = Agent::register(&harbor, "alice").await;
    let mut bob = Agent::register(&harbor, "bob").await;
    for size in [0, 1, 1_000] {
        let mut a = Raw::register(&harbor, "a").await;
        a.write(&frame(TEXT, &vec![b'['; size])).await;
        let part = frame(CONTINUATION, &vec![b'['; size]);
        let enough = 3 * limit / part.len() + 1;
        let block = part.repeat(100);
        for _ in 0..enough.div_ceil(100) {
            if !a.try_write(&block).await {
                break;
            }
        }
        assert_eq!(
            alice
                .deliver(json!({"receiver": {"agent_id": "bob"}}))
                .await,
            1
        );
        assert_eq!(a.close_code().await, Some(1009), "fragments of {size}");
        assert_eq!(bob.received().await.len(), 1);
    }
}

/// T07, T08: a message in thousands of fragments, empty ones and pings between, is one message.
#[tokio::test]
async fn a_message_in_thousands_of_fragments_arrives_whole() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::in_groups(&harbor, "bob", &[("g", &[])]).await;
    let mut a = Raw::register(&harbor, "a").await;
    let text = of_length(4_000);
    let mut bytes = frame(TEXT, b"");
    for (at, byte) in text.bytes().enumerate() {
        bytes.extend(frame(CONTINUATION, &[byte]));
        bytes.extend(frame(CONTINUATION, &[]));
        if at % 1_000 == 0 {
            bytes.extend(frame(FIN | PING, b"between"));
        }
    }
    bytes.extend(frame(FIN | CONTINUATION, b""));
    a.write(&bytes).await;
    assert_eq!(bob.next_text().await, text);
}

/// T08: a control frame inside a fragmented message is dealt with at once and leaves it whole.
#[tokio::test]
async fn control_frames_inside_a_fragmented_message() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::in_groups(&harbor, "bob", &[("g", &[])]).await;
    let mut a = Raw::register(&harbor, "a").await;
    let text = of_length(300);
    let (start, end) = text.as_bytes().split_at(100);
    a.write(&frame(TEXT, start)).await;
    a.write(&frame(FIN | PONG, b"unasked")).await;
    a.write(&frame(FIN | PING, b"now")).await;
    let pong = a.next_frame().await.unwrap();
    assert_eq!((pong.first, pong.payload), (FIN | PONG, b"now".to_vec()));
    a.write(&frame(FIN | CONTINUATION, end)).await;
    assert_eq!(bob.next_text().await, text);
    assert_eq!(a.next_json().await["type"], "synapse.accepted");

    a.write(&frame(TEXT, start)).await;
    a.write(&frame(FIN | CLOSE, &close_payload(1000, b"")))
        .await;
    assert_eq!(a.close_code().await, Some(1000));
    assert_eq!(bob.received().await, Vec::<Value>::new());
}

/// T09: the longest ping is echoed and the frame behind it is read right.
#[tokio::test]
async fn a_ping_of_125_bytes_is_echoed() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::in_groups(&harbor, "bob", &[("g", &[])]).await;
    let mut a = Raw::register(&harbor, "a").await;
    let text = of_length(200);
    let bytes = [
        frame(FIN | PING, &[0xff; 125]),
        frame(FIN | TEXT, text.as_bytes()),
    ]
    .concat();
    a.write(&bytes).await;
    let mut answers = [a.next_frame().await.unwrap(), a.next_frame().await.unwrap()];
    answers.sort_by_key(|frame| frame.first);
    assert_eq!(answers[1].first, FIN | PONG);
    assert_eq!(answers[1].payload, [0xff; 125]);
    assert_eq!(bob.next_text().await, text);
}

/// T09, T12: frames that break RFC 6455 sections 5.1 to 5.5 end the connection with 1002, and
/// nothing of them is routed.
#[tokio::test]
async fn frames_that_break_the_protocol() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::in_groups(&harbor, "bob", &[("g", &[])]).await;
    let text = of_length(130);
    let mut cases = vec![
        ("fragmented ping", frame(PING, b"half")),
        ("ping of 126 bytes", frame(FIN | PING, &[0; 126])),
        ("pong of 126 bytes", frame(FIN | PONG, &[0; 126])),
        ("fragmented close", frame(CLOSE, &[])),
        ("close of 126 bytes", frame(FIN | CLOSE, &[b'x'; 126])),
        (
            "continuation of nothing",
            frame(FIN | CONTINUATION, text.as_bytes()),
        ),
        (
            "text inside a fragmented message",
            [frame(TEXT, b"{"), frame(FIN | TEXT, text.as_bytes())].concat(),
        ),
        (
            "unmasked",
            [
                raw::header(FIN | TEXT, text.len()),
                text.clone().into_bytes(),
            ]
            .concat(),
        ),
    ];
    // With no extension negotiated the reserved bits mean nothing, so compressed frames (RSV1) are
    // broken ones.
    for reserved in [0x40, 0x20, 0x10] {
        let bytes = frame(FIN | reserved | TEXT, text.as_bytes());
        cases.push(("reserved bit", bytes));
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        cases.push(("reserved opcode", frame(FIN | opcode, b"")));
    }
    for (what, bytes) in &cases {
        let mut a = Raw::register(&harbor, "a").await;
        a.write(bytes).await;
        assert_eq!(a.close_code().await, Some(1002), "{what}: {:?}", bytes[0]);
    }
    assert_eq!(bob.received().await, Vec::<Value>::new());
    assert_eq!(
        harbor.metric_with("harbor_connections_closed_total", "protocol"),
        cases.len() as f64
    );
}

/// T10: a code point may be cut by a frame's end.
#[tokio::test]
async fn a_code_point_may_lie_across_frames() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let mut a = Raw::register(&harbor, "a").await;
    let text = || chat("a", "bob", &json!("👩‍🚀 你好 é")).to_string();
    for at in 0..=text().len() {
        let text = text();
        let at = at.min(text.len());
        let (start, end) = text.as_bytes().split_at(at);
        a.write(&frame(TEXT, start)).await;
        a.write(&frame(FIN | CONTINUATION, end)).await;
        assert_eq!(bob.next_text().await, text, "cut at {at}");
    }
}

/// T10: text that is no UTF-8 fails at once, also in the middle of a message, and is never routed.
#[tokio::test]
async fn text_that_is_not_utf8() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let text = chat("a", "bob", &json!("?")).to_string();
    let (start, end) = text.split_once('?').unwrap();
    for bad in [
        b"\xed\xa0\x80".as_slice(),
        b"\xc0\xaf",
        b"\xff",
        b"\x80",
        b"\xf4\x90\x80\x80",
        b"\xf0\x9f\x91",
    ] {
        let whole = [start.as_bytes(), bad, end.as_bytes()].concat();
        let mut a = Raw::register(&harbor, "a").await;
        a.write(&frame(FIN | TEXT, &whole)).await;
        assert_eq!(a.close_code().await, Some(1007), "{bad:?}");

        let mut a = Raw::register(&harbor, "a").await;
        a.write(&frame(TEXT, &whole)).await;
        assert_eq!(a.close_code().await, Some(1007), "fails fast: {bad:?}");
    }
    let mut a = Raw::register(&harbor, "a").await;
    a.write(&frame(FIN | TEXT, b"\xf0\x9f\x91")).await;
    assert_eq!(a.close_code().await, Some(1007), "cut at the message's end");

    let mut a = Raw::register(&harbor, "a").await;
    a.write(&frame(FIN | CLOSE, &close_payload(1000, b"\xed\xa0\x80")))
        .await;
    let code = a.close_code().await.unwrap();
    assert!(code == 1007 || code == 1002, "{code}: a reason not UTF-8");
    assert_eq!(bob.received().await, Vec::<Value>::new());
}

/// T11: lengths at every edge of the length encoding and of buffers arrive byte for byte, and are
/// written in the shortest encoding.
#[tokio::test]
async fn lengths_at_every_edge() {
    let harbor = Harbor::start().await;
    let b = Raw::connect(&harbor).await;
    let groups = json!({"groups": [{"group_id": "g"}]});
    let mut b = b.registered(json!({"agent_id": "b"}), groups).await;
    let mut a = Raw::register(&harbor, "a").await;
    for length in [
        125, 126, 127, 128, 4_095, 4_096, 4_097, 8_191, 8_192, 8_193, 65_535, 65_536, 65_537,
    ] {
        let text = of_length(length);
        a.write(&frame(FIN | TEXT, text.as_bytes())).await;
        assert_eq!(b.next_text().await, text.as_bytes(), "{length}");
        assert_eq!(a.next_json().await["payload"]["recipients"], 1);

        let payload = "y".repeat(length - 2);
        let text = chat("a", "b", &json!(payload)).to_string();
        a.write(&frame(FIN | TEXT, text.as_bytes())).await;
        assert_eq!(b.next_text().await, text.as_bytes(), "payload of {length}");
        assert_eq!(a.next_json().await["payload"]["recipients"], 1);
    }
}

/// T12: compression is not negotiated, however it is offered, and large frames go through.
#[tokio::test]
async fn compression_is_not_negotiated() {
    let harbor = Harbor::start().await;
    for offer in [
        "permessage-deflate",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover, x-webkit-deflate-frame",
    ] {
        let mut peer = Raw::connect(&harbor).await;
        let lines = format!("Sec-WebSocket-Extensions: {offer}\r\n");
        let answer = peer.upgrade(&lines).await;
        assert_eq!(answer.status, 101, "{}", answer.head);
        assert!(!answer.head.contains("extensions"), "{}", answer.head);
        let challenge = peer.next_frame().await.unwrap();
        assert_eq!(challenge.first, FIN | TEXT, "not compressed");
    }
}

/// T46b: peers that write everything before they read anything are read nevertheless.
#[tokio::test]
async fn both_sides_may_write_before_they_read() {
    let harbor = Harbor::start().await;
    let mut peers = Vec::new();
    for id in ["a", "b"] {
        let raw = Raw::with_buffers(&harbor, 4_096).await;
        peers.push(raw.registered(json!({"agent_id": id}), json!({})).await);
    }
    let bulk = json!("z".repeat(200_000));
    let (mut a, mut b) = (peers.remove(0), peers.remove(0));
    let to = |from: &str, to: &str| -> Vec<u8> {
        let frames = (0..15).map(|_| raw::text(&chat(from, to, &bulk)));
        frames.flatten().collect()
    };
    // 3 MB each way, far over what the sockets hold and below what an outbox may.
    tokio::join!(async { a.write(&to("a", "b")).await }, async {
        b.write(&to("b", "a")).await
    });
    for (peer, from) in [(&mut a, "b"), (&mut b, "a")] {
        let (mut messages, mut answers) = (0, 0);
        while (messages, answers) != (15, 15) {
            let frame = peer.next_json().await;
            if frame["type"] == "synapse.accepted" {
                answers += 1;
            } else {
                assert_eq!(frame["sender"]["agent_id"], from);
                messages += 1;
            }
        }
    }
}
