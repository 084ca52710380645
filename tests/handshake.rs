//! Goal: the door lets in who may come in, tells others why not, and no peer can hold it open.
//! Method: hand-written HTTP requests over raw TCP, with short deadlines where time matters.

use std::time::Duration;

use harbor::Settings;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{
    Agent, Harbor, Raw, eventually,
    raw::{self, UPGRADE},
    soon,
};

/// A Harbor that gives peers one second to register.
async fn hasty() -> Harbor {
    Harbor::with(Settings {
        connect_deadline_seconds: Some(1),
        ..Settings::default()
    })
    .await
}

/// A client in a hurry, or a proxy that gathers writes: what comes in one piece with the request is
/// read as if it had come later, also when it is more than a read takes.
#[tokio::test]
async fn frames_in_one_piece_with_the_request_are_read() {
    let harbor = Harbor::start().await;
    let message = |id: &str, kind: &str, payload: Value| {
        raw::text(&json!({
            "id": id, "version": "1.0.0", "type": kind, "sender": {"agent_id": "a"},
            "receiver": {"agent_id": "a"}, "payload": payload,
            "timestamp": "2026-03-01T12:00:00Z",
        }))
    };
    let bulk = json!("x".repeat(20_000));
    let piece = [
        format!("{UPGRADE}\r\n").into_bytes(),
        message("r", "synapse.register", json!({"confirm": "refusals"})),
        message("1", "chat", bulk.clone()),
        message("2", "chat", json!("short")),
    ];
    let mut peer = Raw::connect(&harbor).await;
    peer.write(&piece.concat()).await;
    assert_eq!(peer.answer().await.status, 101);
    assert_eq!(peer.next_json().await["type"], "synapse.challenge");
    assert_eq!(peer.next_json().await["type"], "synapse.registered");
    assert_eq!(peer.next_json().await["payload"], bulk);
    assert_eq!(peer.next_json().await["payload"], "short");
}

/// T01: an oversized request head is cut off early, and others do not notice.
#[tokio::test]
async fn a_request_head_of_20_megabytes_is_cut_off() {
    let harbor = Harbor::start().await;
    let mut alice = Agent::register(&harbor, "alice").await;
    let mut peer = Raw::connect(&harbor).await;
    peer.write(UPGRADE.as_bytes()).await;
    peer.write(b"X-Large: ").await;
    let mut written = 0;
    let block = vec![b'x'; 64 * 1024];
    while written < 20_000_000 && peer.try_write(&block).await {
        written += block.len();
        assert_eq!(
            alice
                .deliver(json!({"receiver": {"agent_id": "alice"}}))
                .await,
            1
        );
        alice.next().await;
    }
    assert!(written < 20_000_000, "all was taken");
    drop(peer);
    harbor_is_well(&harbor).await;
}

/// T01: the bound holds for the whole head, however many lines it has; a head just over it gets a
/// status, not only an end.
#[tokio::test]
async fn a_request_head_over_the_bound_gets_431() {
    let harbor = Harbor::start().await;
    let line = format!("X-Line: {}\r\n", "x".repeat(1_000));
    for lines in [line.repeat(40), "X-Small: 1\r\n".repeat(200)] {
        let mut peer = Raw::connect(&harbor).await;
        let answer = peer.upgrade(&lines).await;
        assert_eq!(answer.status, 431, "{}", answer.head);
        assert!(answer.body.is_empty());
        peer.ended().await;
    }
    harbor_is_well(&harbor).await;
}

/// T01: a head that comes byte by byte, or not at all, ends at the connect deadline, and others do
/// not notice.
#[tokio::test]
async fn a_request_head_byte_by_byte_ends_at_the_deadline() {
    let harbor = hasty().await;
    let mut alice = Agent::register(&harbor, "alice").await;
    let mut silent = Raw::connect(&harbor).await;
    let mut dripping = Raw::connect(&harbor).await;
    let started = Instant::now();
    let head = format!("{UPGRADE}X-Slow: {}", "x".repeat(30_000));
    let drip = async {
        for byte in head.bytes() {
            if !dripping.try_write(&[byte]).await {
                return;
            }
            assert_eq!(
                alice
                    .deliver(json!({"receiver": {"agent_id": "alice"}}))
                    .await,
                1
            );
            alice.next().await;
        }
        panic!("the whole head was taken");
    };
    tokio::join!(soon("the dripping one ends", drip), silent.ended());
    assert!(started.elapsed() >= Duration::from_millis(900));
    harbor_is_well(&harbor).await;
}

/// A peer that does not register in time is told so with 4008, whatever else it sends.
#[tokio::test]
async fn who_does_not_register_in_time_is_too_slow() {
    let harbor = hasty().await;
    let mut silent = Raw::connect(&harbor).await;
    assert_eq!(silent.upgrade("").await.status, 101);
    let mut talking = Raw::connect(&harbor).await;
    assert_eq!(talking.upgrade("").await.status, 101);
    let talk = async {
        let bytes = [
            raw::frame(raw::FIN | raw::PING, b""),
            raw::text(&json!({"id": "x"})),
            raw::frame(raw::TEXT, b""),
            raw::frame(raw::FIN | raw::CONTINUATION, b"no JSON"),
        ]
        .concat();
        while talking.try_write(&bytes).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (code, ()) = tokio::join!(silent.close_code(), soon("the talking one ends", talk));
    assert_eq!(code, Some(4008));
    eventually("both are counted", || {
        harbor.metric_with("harbor_connections_closed_total", "too_slow") == 2.0
    })
    .await;
    harbor.is_empty().await;
}

/// T13: large cookies of a site are no reason to refuse; the bound is 32 KiB for the whole head.
#[tokio::test]
async fn cookies_of_8_kilobytes_are_fine() {
    let harbor = Harbor::start().await;
    for (length, status) in [(8 * 1024, 101), (28 * 1024, 101), (36 * 1024, 431)] {
        let mut peer = Raw::connect(&harbor).await;
        let cookie = format!("Cookie: session={}\r\n", "c".repeat(length));
        assert_eq!(peer.upgrade(&cookie).await.status, status, "{length}");
    }
}

/// T14: letter case and token lists, as RFC 9110 and RFC 6455 section 4.2.1 allow them. One
/// `Upgrade` token is wanted; a list of several protocols is no WebSocket request here.
#[tokio::test]
async fn letter_case_and_token_lists_of_a_valid_handshake() {
    let harbor = Harbor::start().await;
    for (connection, upgrade, status) in [
        ("Upgrade", "websocket", 101),
        ("upgrade", "WebSocket", 101),
        ("UPGRADE", "WEBSOCKET", 101),
        ("keep-alive, upgrade", "websocket", 101),
        ("keep-alive,Upgrade", "Websocket", 101),
        ("Upgrade, HTTP2-Settings", "websocket", 101),
        ("Upgrade", "websocket, h2c", 426),
        ("Upgrade", "h2c", 426),
        ("keep-alive", "websocket", 426),
    ] {
        let mut peer = Raw::connect(&harbor).await;
        let request = UPGRADE
            .replace("Connection: Upgrade", &format!("Connection: {connection}"))
            .replace("Upgrade: websocket", &format!("Upgrade: {upgrade}"));
        let answer = peer.ask(&format!("{request}\r\n")).await;
        assert_eq!(answer.status, status, "{connection} / {upgrade}");
        if status == 101 {
            // The key of RFC 6455 section 1.3 has this answer.
            let accept = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
            assert!(answer.head.contains(accept), "{}", answer.head);
            assert_eq!(peer.next_json().await["type"], "synapse.challenge");
        }
    }
}

/// What is no WebSocket handshake of version 13 is told what would be one.
#[tokio::test]
async fn what_is_no_handshake() {
    let harbor = Harbor::start().await;
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (request, status) in [
        (UPGRADE.replace(key, ""), 426),
        (UPGRADE.replace("Version: 13", "Version: 8"), 426),
        (UPGRADE.replace("Version: 13", "Version: 14"), 426),
        (UPGRADE.replace("Sec-WebSocket-Version: 13\r\n", ""), 426),
        (UPGRADE.replace("Connection: Upgrade\r\n", ""), 426),
        (UPGRADE.replace("Upgrade: websocket\r\n", ""), 426),
        (UPGRADE.replace("GET", "POST"), 405),
        (UPGRADE.replace("GET", "DELETE"), 405),
        (UPGRADE.replace("/ws", "/"), 404),
        (UPGRADE.replace("/ws", "/ws/"), 404),
        (UPGRADE.replace("/ws", "/../ws"), 404),
    ] {
        let mut peer = Raw::connect(&harbor).await;
        let answer = peer.ask(&format!("{request}\r\n")).await;
        assert_eq!(answer.status, status, "{request}");
        if status == 426 {
            for line in ["upgrade: websocket", "sec-websocket-version: 13"] {
                assert!(answer.head.contains(line), "{}", answer.head);
            }
            let kind = "content-type: text/plain; charset=utf-8";
            assert!(answer.head.contains(kind), "{}", answer.head);
        }
        assert_eq!(answer.body.is_empty(), status != 426);
        let allows = answer.head.contains("\r\nallow: get,head\r\n");
        assert_eq!(allows, status == 405, "{}", answer.head);
    }
    for garbage in [
        "\u{16}\u{3}\u{1}\r\n\r\n",
        "GET /ws\r\n\r\n",
        "hello\r\n\r\n",
    ] {
        let mut peer = Raw::connect(&harbor).await;
        assert_eq!(peer.ask(garbage).await.status, 400, "{garbage:?}");
        peer.ended().await;
    }
    let mut with_query = Raw::connect(&harbor).await;
    let request = UPGRADE.replace("/ws", "/ws?token=x");
    let answer = with_query.ask(&format!("{request}\r\n")).await;
    assert_eq!(answer.status, 101, "a query is passed over");
    harbor_is_well(&harbor).await;
}

/// T15: a browser page gets in only if its origin is allowed, exactly; other programs send none.
#[tokio::test]
async fn origins() {
    const APP: &str = "https://app.example";
    let own = "http://127.0.0.1:7420";
    let allowed = |origins: &[&str]| Settings {
        allowed_origins: Some(origins.iter().map(ToString::to_string).collect()),
        ..Settings::default()
    };
    for (settings, welcome, denied) in [
        (
            Settings::default(),
            vec![],
            vec![
                APP,
                own,
                "http://localhost:7420",
                "null",
                "file://",
                "*",
                "",
            ],
        ),
        (
            allowed(&[APP, "http://localhost:3000"]),
            vec![APP, "http://localhost:3000"],
            vec![
                "http://app.example",
                "https://app.example.evil.example",
                "https://evil.example/https://app.example",
                "https://app.example:443",
                "https://app.example/",
                "https://app.exampl",
                "https://sub.app.example",
                "http://localhost",
                own,
                "null",
                "",
            ],
        ),
        (
            allowed(&["*"]),
            vec![APP, "https://evil.example", own, "null"],
            vec![],
        ),
        (allowed(&["null"]), vec!["null"], vec![APP]),
    ] {
        let harbor = Harbor::with(settings).await;
        let ask = async |lines: String| {
            let mut peer = Raw::connect(&harbor).await;
            peer.upgrade(&format!("Cookie: session=valid\r\n{lines}"))
                .await
        };
        assert_eq!(ask(String::new()).await.status, 101, "no origin at all");
        for origin in welcome {
            let answer = ask(format!("Origin: {origin}\r\n")).await;
            assert_eq!(answer.status, 101, "{origin}");
        }
        let refused = denied.len();
        for origin in denied {
            let answer = ask(format!("Origin: {origin}\r\n")).await;
            assert_eq!(answer.status, 403, "{origin}");
            let body: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(
                (&body["code"], &body["field"]),
                (&json!("origin_denied"), &json!("Origin"))
            );
        }
        let code = "code=\"origin_denied\"";
        assert_eq!(
            harbor.metric_with("harbor_refusals_total", code),
            refused as f64
        );
    }
}

/// T15: of several `Origin` lines, all have to be allowed.
#[tokio::test]
async fn a_second_origin_does_not_slip_in_behind_the_first() {
    let harbor = Harbor::with(Settings {
        allowed_origins: Some(vec!["https://app.example".to_owned()]),
        ..Settings::default()
    })
    .await;
    let mut peer = Raw::connect(&harbor).await;
    let lines = "Origin: https://app.example\r\nOrigin: https://evil.example\r\n";
    assert_eq!(peer.upgrade(lines).await.status, 403);
}

/// The subprotocol is chosen if it is offered, and no other.
#[tokio::test]
async fn the_subprotocol() {
    let harbor = Harbor::start().await;
    let chosen = "sec-websocket-protocol: synapse.v1\r\n";
    for (lines, is_chosen) in [
        ("", false),
        ("Sec-WebSocket-Protocol: mqtt\r\n", false),
        ("Sec-WebSocket-Protocol: synapse.v2, synapse.v10\r\n", false),
        ("Sec-WebSocket-Protocol: synapse.v1\r\n", true),
        ("Sec-WebSocket-Protocol: mqtt,synapse.v1 , wamp\r\n", true),
        (
            "Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Protocol: synapse.v1\r\n",
            true,
        ),
    ] {
        let mut peer = Raw::connect(&harbor).await;
        let answer = peer.upgrade(lines).await;
        assert_eq!(answer.status, 101);
        assert_eq!(answer.head.contains(chosen), is_chosen, "{lines}");
        assert_eq!(
            answer.head.contains("sec-websocket-protocol"),
            is_chosen,
            "{lines}"
        );
    }
}

/// Frames that come in one packet with the request are not lost.
#[tokio::test]
async fn frames_right_behind_the_request_are_read() {
    let harbor = Harbor::start().await;
    let register = json!({
        "id": "r", "version": "1.0.0", "type": "synapse.register", "sender": {"agent_id": "a"},
        "payload": {}, "timestamp": "2026-03-01T12:00:00Z",
    });
    let to_itself = json!({
        "id": "m", "version": "1.0.0", "type": "t", "sender": {"agent_id": "a"},
        "receiver": {"agent_id": "a"}, "payload": 1, "timestamp": "2026-03-01T12:00:00Z",
    });
    let mut peer = Raw::connect(&harbor).await;
    let bytes = [
        format!("{UPGRADE}\r\n").into_bytes(),
        raw::text(&register),
        raw::text(&to_itself),
    ]
    .concat();
    peer.write(&bytes).await;
    assert_eq!(peer.answer().await.status, 101);
    let mut types = Vec::new();
    for _ in 0..4 {
        types.push(peer.next_json().await["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(types[..2], ["synapse.challenge", "synapse.registered"]);
    types.sort_unstable();
    assert_eq!(types[2..], ["synapse.registered", "t"]);
}

/// T63: peers that vanish without a word are gone within two heartbeats; one that answers pings
/// and says nothing else stays.
#[tokio::test]
async fn half_open_peers_are_reaped_within_two_heartbeats() {
    let harbor = Harbor::with(Settings {
        heartbeat_seconds: Some(1),
        ..Settings::default()
    })
    .await;
    let mut alive = Agent::in_groups(&harbor, "alive", &[("g", &[])]).await;
    assert_eq!(alive.challenge["heartbeat_seconds"], 1);
    let groups = json!({"groups": [{"group_id": "g"}]});
    let vanished = Raw::connect(&harbor).await;
    let mut vanished = vanished
        .registered(json!({"agent_id": "vanished"}), groups)
        .await;
    let started = Instant::now();
    // Reading the socket answers pings.
    let watch = alive
        .control("synapse.presence.watch", json!({"group_id": "g"}))
        .await;
    assert_eq!(watch["members"].as_array().unwrap().len(), 2);
    let left = alive.next().await;
    assert_eq!(
        (&left["payload"]["agent_id"], &left["payload"]["change"]),
        (&json!("vanished"), &json!("left"))
    );
    let after = started.elapsed();
    assert!(
        after >= Duration::from_millis(1_400),
        "{after:?}: a ping unanswered"
    );
    assert!(
        after < Duration::from_secs(4),
        "{after:?}: two heartbeats and some load"
    );
    assert_eq!(vanished.close_code().await, Some(4008));
    let idle = tokio::time::timeout(Duration::from_secs(3), alive.next_text()).await;
    assert!(idle.is_err(), "three heartbeats with nothing but pings");
    assert_eq!(alive.deliver(json!({"group_id": "g"})).await, 0);
    assert_eq!(harbor.metric("harbor_agents"), 1.0);
}

/// A new agent is let in and served.
async fn harbor_is_well(harbor: &Harbor) {
    let mut agent = Agent::register(harbor, "well").await;
    assert_eq!(
        agent
            .deliver(json!({"receiver": {"agent_id": "well"}}))
            .await,
        1
    );
}
