//! Goal: times and lifetimes mean what PROTOCOL.md says, for every spelling, and an expired message
//! is never written.
//! Method: tables sent end to end; for expiry, a receiver that stops reading and a clock that jumps.

use std::time::Duration;

use harbor::Settings;
use serde_json::{Value, json};

use crate::support::{Agent, Harbor, Raw, agent::refusal_of, raw};

/// Sends `text` as a member of a message to itself: accepted and delivered, or the refusal.
async fn outcome(agent: &mut Agent, member: &str, text: &str) -> Result<(), (String, String)> {
    let message = agent.envelope(json!({"receiver": {"agent_id": agent.id}}));
    let mut frame = message.to_string();
    if member == "timestamp" {
        frame = frame.replace(r#""2026-03-01T12:00:00Z""#, text);
    } else {
        frame = frame.replacen('{', &format!(r#"{{"{member}":{text},"#), 1);
    }
    agent.send_text(&*frame).await;
    let mut answer = agent.next().await;
    if answer["type"] == "synapse.refused" {
        return Err(refusal_of(&answer));
    }
    let mut delivered = agent.next_text().await;
    if answer["type"] != "synapse.accepted" {
        let first = answer.to_string();
        answer = serde_json::from_str(&delivered).unwrap();
        delivered = first;
    }
    assert_eq!(answer["payload"]["recipients"], 1, "{frame}");
    let delivered: Value = serde_json::from_str(&delivered).unwrap();
    assert_eq!(delivered["id"], message["id"]);
    Ok(())
}

fn invalid(field: &str) -> Result<(), (String, String)> {
    Err(("invalid_field".to_owned(), field.to_owned()))
}

/// T30: a TTL is a whole number of seconds; zero, null and absent are the default, a huge one is
/// clamped, and no value makes a deadline that overflows.
#[tokio::test]
async fn every_form_of_ttl() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    for ttl in [
        "0",
        "1",
        "60",
        "null",
        "2147483647",
        "2147483648",
        "4294967296",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999999999",
    ] {
        assert_eq!(outcome(&mut a, "ttl", ttl).await, Ok(()), "{ttl}");
    }
    for ttl in [
        "-1",
        "-0.5",
        "1.5",
        "0.1",
        "60.0",
        "6e1",
        "\"60\"",
        "\"\"",
        "true",
        "[]",
        "{}",
        "-9223372036854775808",
        "-99999999999999999999",
        "1e-400",
    ] {
        assert_eq!(outcome(&mut a, "ttl", ttl).await, invalid("ttl"), "{ttl}");
    }
    assert_eq!(harbor.metric("harbor_deliveries_expired_total"), 0.0);
}

/// T31: the timestamp of an unsigned message is not judged, only read: TTL counts from receipt.
#[tokio::test]
async fn timestamps_far_away_are_taken() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    for year in [
        "0001-01-01",
        "1969-12-31",
        "2023-03-01",
        "2038-01-20",
        "2262-04-12",
        "9999-12-31",
    ] {
        for zone in ["Z", "+00:00", "-12:00", "+14:00"] {
            let text = format!("\"{year}T23:59:59{zone}\"");
            assert_eq!(outcome(&mut a, "timestamp", &text).await, Ok(()), "{text}");
        }
    }
    for text in [
        "1772366400000",
        "1772366400",
        "\"1772366400\"",
        "\"56123-01-01T00:00:00Z\"",
        "{}",
    ] {
        let refused = outcome(&mut a, "timestamp", text).await;
        assert_eq!(refused, invalid("timestamp"), "{text}: it names the field");
    }
    for text in ["null", "\"\""] {
        let missing = ("missing_field".to_owned(), "timestamp".to_owned());
        assert_eq!(outcome(&mut a, "timestamp", text).await, Err(missing));
    }
}

/// T31b: one table of what is an RFC 3339 time and what is not, for `timestamp` and `expires_at`.
#[tokio::test]
async fn every_spelling_of_a_time() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    let taken = [
        "2100-03-01T12:00:00Z",
        "2100-03-01t12:00:00z",
        "2100-03-01T12:00:00.5Z",
        "2100-03-01T12:00:00.123456789Z",
        "2100-03-01T12:00:00+08:00",
        "2100-03-01T12:00:00-00:30",
        "2100-03-01T12:00:00-00:00",
        "2100-03-01T12:00:00+23:59",
        "2104-02-29T00:00:00Z",
        "2100-03-01T23:59:59.999999999-23:59",
    ];
    let refused = [
        "2100-03-01T12:00:00",
        "2100-03-01T12:00Z",
        "2100-03-01 12:00:00Z",
        "2100-03-01T12:00:00.Z",
        "2100-03-01T12:00:00,5Z",
        "2100-03-01T12:00:00.1234567890Z",
        "2100-03-01T12:00:60Z",
        "2100-03-01T12:60:00Z",
        "2100-03-01T24:00:00Z",
        "2100-02-29T12:00:00Z",
        "2100-13-01T12:00:00Z",
        "2100-00-01T12:00:00Z",
        "2100-03-00T12:00:00Z",
        "2100-03-01T12:00:00+99:99",
        "2100-03-01T12:00:00+24:00",
        "2100-03-01T12:00:00+12:60",
        "2100-03-01T12:00:00+0800",
        "2100-03-01T12:00:00+08",
        "2100-03-01T12:00:00\u{2212}08:00",
        "2100-03-01T12:00:00Z ",
        " 2100-03-01T12:00:00Z",
        "2100-03-01T12:00:00[Europe/Berlin]",
        "2100-3-1T12:00:00Z",
        "２１００-03-01T12:00:00Z",
        "tomorrow",
    ];
    for member in ["timestamp", "expires_at"] {
        for text in taken {
            let outcome = outcome(&mut a, member, &json!(text).to_string()).await;
            assert_eq!(outcome, Ok(()), "{member} {text}");
        }
        for text in refused {
            let outcome = outcome(&mut a, member, &json!(text).to_string()).await;
            assert_eq!(outcome, invalid(member), "{member} {text}");
        }
    }
}

/// T30, T31b: `expires_at` is a moment, whatever offset it is written with; a past one is refused,
/// and the far end of the calendar means never.
#[tokio::test]
async fn expires_at_honours_its_offset() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    let expired = Err(("expired".to_owned(), "expires_at".to_owned()));
    let now = jiff::Timestamp::now();
    let written = |minutes: i64, offset_hours: i8| {
        let at = now + jiff::SignedDuration::from_mins(minutes);
        let offset = jiff::tz::offset(offset_hours);
        json!(at.display_with_offset(offset).to_string()).to_string()
    };
    for offset_hours in [-12, -5, 0, 8, 14] {
        let later = written(10, offset_hours);
        assert_eq!(
            outcome(&mut a, "expires_at", &later).await,
            Ok(()),
            "{later}"
        );
        let before = written(-10, offset_hours);
        assert_eq!(
            outcome(&mut a, "expires_at", &before).await,
            expired,
            "{before}"
        );
    }
    for (text, expected) in [
        ("\"9999-12-31T23:59:59Z\"", Ok(())),
        ("\"9999-12-31T23:59:59.999999999-12:00\"", Ok(())),
        ("\"0001-01-01T00:00:00Z\"", expired.clone()),
        ("null", Ok(())),
        ("\"\"", Ok(())),
        ("4102444800", invalid("expires_at")),
    ] {
        assert_eq!(
            outcome(&mut a, "expires_at", text).await,
            expected,
            "{text}"
        );
    }
}

/// T27: what expires while it waits for a receiver's socket is never written, and is counted; what
/// stands before and behind it is. TTL and `expires_at` and the default alike.
#[tokio::test]
async fn what_expires_in_the_outbox_is_never_written() {
    let harbor = Harbor::with(Settings {
        heartbeat_seconds: Some(3_600),
        connect_deadline_seconds: Some(3_600),
        ttl_default_seconds: Some(600),
        ..Settings::default()
    })
    .await;
    let raw = Raw::with_buffers(&harbor, 4_096).await;
    let mut stalled = raw
        .registered(json!({"agent_id": "stalled"}), json!({}))
        .await;
    let mut a = Agent::register(&harbor, "a").await;
    let to = |members: Value, payload: Value| {
        let mut message = json!({"receiver": {"agent_id": "stalled"}, "payload": payload});
        message
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        message
    };
    // Until the socket is full and 2 MB wait in the outbox; one task at a time runs here, so the
    // receiver's has written all it could whenever the sender's has its answer.
    let mut fillers = 0;
    let filler = json!("f".repeat(200_000));
    while harbor.metric("harbor_outbox_bytes") < 2_000_000.0 {
        assert_eq!(
            a.deliver(to(json!({"ttl": 3_000}), filler.clone())).await,
            1
        );
        fillers += 1;
    }
    let written_before = harbor.metric("harbor_deliveries_written_total");
    for (members, name) in [
        (json!({"ttl": 1_000}), "first"),
        (json!({"ttl": 20}), "short ttl"),
        (json!({"ttl": 40}), "exact ttl"),
        (json!({"ttl": 120}), "second"),
        (json!({}), "default"),
        (
            json!({"expires_at": in_seconds(30), "ttl": 1_000}),
            "short expires_at",
        ),
        (
            json!({"expires_at": in_seconds(1_000), "ttl": 30}),
            "short ttl, long expires_at",
        ),
        (json!({"expires_at": "9999-12-31T23:59:59Z"}), "third"),
    ] {
        assert_eq!(a.deliver(to(members, json!(name))).await, 1, "{name}");
    }
    assert_eq!(
        harbor.metric("harbor_deliveries_written_total"),
        written_before
    );
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(40)).await;
    tokio::time::resume();
    let mut names = Vec::new();
    while names.last() != Some(&json!("third")) {
        let payload = stalled.next_json().await["payload"].take();
        if payload == filler {
            fillers -= 1;
        } else {
            names.push(payload);
        }
    }
    assert_eq!(names, ["first", "second", "default", "third"]);
    assert_eq!(fillers, 0, "long lived ones are all written");
    assert_eq!(harbor.metric("harbor_deliveries_expired_total"), 4.0);
    assert_eq!(harbor.metric("harbor_deliveries_dropped_total"), 0.0);
    stalled.write(&raw::frame(raw::FIN | raw::PING, b"")).await;
    let pong = stalled.next_frame().await.unwrap();
    assert_eq!(
        pong.first,
        raw::FIN | raw::PONG,
        "and nothing more was written"
    );
    assert_eq!(harbor.metric("harbor_outbox_bytes"), 0.0);
}

fn in_seconds(seconds: u64) -> String {
    (jiff::Timestamp::now() + Duration::from_secs(seconds)).to_string()
}
