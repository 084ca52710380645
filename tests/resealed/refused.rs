//! What does not open, what is nobody's to open, and what is not for Harbor to open.

use super::*;

/// The answers to frames that are written at once, in their order.
async fn answers(agent: &mut Agent, frames: &[Value]) -> Vec<Value> {
    let mut answers = Vec::new();
    // As many at a time as never fill a socket while nobody reads.
    for some in frames.chunks(64) {
        for frame in some {
            agent.send(frame).await;
        }
        for frame in some {
            let answer = agent.next().await;
            assert_eq!(answer["correlation_id"], frame["id"]);
            answers.push(answer);
        }
    }
    answers
}

/// The one refusal of whatever is wrong with a seal.
fn bad_seal() -> Value {
    json!({"code": "bad_seal", "field": "payload", "reason": "the payload cannot be opened"})
}

async fn is_refused(agent: &mut Agent, frame: &Value) {
    let answer = ask(agent, frame).await;
    assert_eq!(answer["payload"], bad_seal(), "{frame}");
}

/// Whether a payload names a key that Harbor does not hold, so that it is not Harbor's to open.
fn names_another_key(payload: &Value) -> bool {
    let protected = URL_SAFE_NO_PAD.decode(payload["protected"].as_str().unwrap());
    let header: Option<Value> = serde_json::from_slice(&protected.unwrap()).ok();
    let kid = header.as_ref().and_then(|header| header["kid"].as_str());
    kid.is_some_and(|kid| !kid.is_empty() && kid != "alice-seal")
}

#[tokio::test]
async fn no_flipped_bit_is_delivered_but_to_who_may_hold_another_key() {
    let here = holding(&["alice", "bob"]).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::register(&here.harbor, "bob").await;
    let id = new_id();
    let members = json!({"id": id, "receiver": {"agent_id": "bob"}});
    let message = sealed_by(&alice, members, "alice", r#"{"a":1}"#);
    let mut flipped = Vec::new();
    for name in ["protected", "iv", "ciphertext", "tag"] {
        let text = message["payload"][name].as_str().unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut message = message.clone();
            message["payload"][name] = URL_SAFE_NO_PAD.encode(bytes).into();
            flipped.push(message);
        }
    }
    assert!(flipped.len() > 900, "{}", flipped.len());
    let (others, refused): (Vec<Value>, Vec<Value>) = flipped
        .into_iter()
        .partition(|message| names_another_key(&message["payload"]));
    let mut told: Vec<_> = answers(&mut alice, &refused)
        .await
        .iter()
        .map(|answer| (answer["type"].to_string(), answer["payload"].to_string()))
        .collect();
    assert_eq!(told.len(), refused.len());
    told.dedup();
    let expected = ("\"synapse.refused\"".to_owned(), bad_seal().to_string());
    assert_eq!(told, [expected], "one answer, byte for byte");
    // Flipped in the name of the key: like any message between two ends. It opens for nobody.
    assert!((40..120).contains(&others.len()), "{}", others.len());
    for mut other in others {
        other["id"] = new_id().into();
        assert_eq!(recipients(&mut alice, &other).await, 1);
        let came = bob.next_text().await;
        assert_eq!(serde_json::from_str::<Value>(&came).unwrap(), other);
        let read = Envelope::decode(&came).unwrap();
        assert!(sealed::open(&read, &here.ring, jiff::Timestamp::now()).is_err());
    }
    // The refused have taken no id, and nothing of them came.
    assert_eq!(recipients(&mut alice, &message).await, 1);
    let came = bob.next_text().await;
    assert_eq!(
        checked(&came, &message, Some("bob"), &here.ring),
        r#"{"a":1}"#
    );
    assert_eq!(here.harbor.metric("harbor_messages_opened_total"), 1.0);
}

#[tokio::test]
async fn moved_to_another_envelope_it_does_not_open() {
    let here = holding(&["alice", "bob"]).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut carol = Agent::register(&here.harbor, "carol").await;
    let mut bob = Agent::in_groups(&here.harbor, "bob", &[("crew", &[]), ("bob", &[])]).await;
    let message = sealed_by(
        &alice,
        json!({"receiver": {"agent_id": "bob"}}),
        "alice",
        "1",
    );
    let to_group = sealed_by(&alice, json!({"group_id": "crew"}), "alice", "1");
    for (payload, members) in [
        (&message, json!({"receiver": {"agent_id": "bob"}})),
        (
            &message,
            json!({"id": message["id"], "receiver": {"agent_id": "alice"}}),
        ),
        (&message, json!({"id": message["id"], "group_id": "crew"})),
        (
            &message,
            json!({"id": message["id"], "receiver": {"agent_id": "bob"}, "group_id": "crew"}),
        ),
        (
            &to_group,
            json!({"id": to_group["id"], "receiver": {"agent_id": "bob"}}),
        ),
        (
            &to_group,
            json!({"id": to_group["id"], "group_id": "another"}),
        ),
    ] {
        let mut moved = alice.envelope(members);
        moved["payload"] = payload["payload"].clone();
        moved["encrypt"] = true.into();
        is_refused(&mut alice, &moved).await;
    }
    // An agent and a group of one name: `aud` does not tell them apart.
    let mut moved = to_group.clone();
    moved["receiver"] = json!({"agent_id": "crew"});
    moved.as_object_mut().unwrap().remove("group_id");
    assert_eq!(recipients(&mut alice, &moved).await, 0);
    let mut stolen = message.clone();
    stolen["sender"] = json!({"agent_id": "carol"});
    is_refused(&mut carol, &stolen).await;
    assert_eq!(bob.received().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_key_opens_for_those_who_have_part_in_the_message_while_it_lasts() {
    let mut ring = ring_with(&["alice", "bob", "carol", "crew"]);
    let mut ended = sealing_key("dave");
    ended.not_after = Some(jiff::Timestamp::now());
    let mut early = SealingKey::from_secret("early-seal", "alice", &secret("early")).unwrap();
    early.not_before = Some(jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1));
    for key in [ended, early] {
        ring.add_sealing(key).unwrap();
    }
    let here = started(ring, Settings::default()).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut dave = Agent::register(&here.harbor, "dave").await;
    let mut bob = Agent::in_groups(&here.harbor, "bob", &[("crew", &[])]).await;
    let (to_bob, to_crew) = (
        json!({"receiver": {"agent_id": "bob"}}),
        json!({"group_id": "crew"}),
    );
    for (members, owner, opens) in [
        (&to_bob, "carol", false),
        (&to_bob, "crew", false),
        (&to_crew, "bob", false),
        (&to_crew, "carol", false),
        (&to_bob, "early", false),
        (&to_bob, "bob", true),
        (&to_crew, "crew", true),
        (&to_crew, "alice", true),
    ] {
        let message = sealed_by(&alice, members.clone(), owner, ODD);
        if opens {
            assert_eq!(recipients(&mut alice, &message).await, 1, "{owner}");
            let came = bob.next_text().await;
            assert_eq!(checked(&came, &message, Some("bob"), &here.ring), ODD);
        } else {
            is_refused(&mut alice, &message).await;
        }
    }
    let late = sealed_by(&dave, to_bob, "dave", "1");
    is_refused(&mut dave, &late).await;
    assert_eq!(bob.received().await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_sealed_must_be_a_payload() {
    let mut ring = ring_with(&["alice", "bob"]);
    let alice_key = Key::generate("alice-1", "alice", Algorithm::Ed25519).unwrap();
    ring.add(alice_key.clone()).unwrap();
    let here = started(ring, clear()).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::in_groups(&here.harbor, "bob", &[("crew", &[])]).await;
    let mut dave = Agent::in_groups(&here.harbor, "dave", &[("crew", &[])]).await;
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let to_bob = || json!({"receiver": {"agent_id": "bob"}, "timestamp": jiff::Timestamp::now().to_string()});
    for text in [
        "",
        " ",
        "{",
        "1 2",
        "nonsense",
        r#""\ud800""#,
        r#"["\udc00x"]"#,
        "\u{feff}1",
        &nested(128),
    ] {
        let message = sealed_by(&alice, to_bob(), "alice", text);
        is_refused(&mut alice, &message).await;
    }
    let mut not_utf8 = sealed_by(&alice, to_bob(), "alice", "1");
    let header = header(&not_utf8, "alice-seal");
    not_utf8["payload"] = jwe(&header, b"\"\xff\"", &secret("alice"));
    is_refused(&mut alice, &not_utf8).await;
    // As it stands, with white space around it and as deep as it may be.
    for text in [
        " 1\n",
        &nested(127),
        r#"{"a":1,"a":2}"#,
        "18446744073709551616",
    ] {
        let message = sealed_by(&alice, to_bob(), "alice", text);
        assert_eq!(recipients(&mut alice, &message).await, 1);
        let came = bob.next_text().await;
        let opened = checked(&came, &message, Some("bob"), &here.ring);
        assert_eq!(opened, text.trim());
    }
    // A key twice: not in what its sender signed.
    let twice = sealed_by(&alice, to_bob(), "alice", r#"[{"a":1,"\u0061":2}]"#).to_string();
    let envelope = Envelope::decode(&twice).unwrap();
    let signed = signature::signed(envelope, &alice_key).unwrap();
    is_refused(&mut alice, &serde_json::from_str(&signed).unwrap()).await;
    // Nor where Harbor would have to sign it in the clear; then nobody gets it.
    for text in [r#"{"a":1,"a":2}"#, "9007199254740993"] {
        let message = sealed_by(&alice, json!({"group_id": "crew"}), "alice", text);
        is_refused(&mut alice, &message).await;
    }
    // What cannot be signed beside the payload is no secret.
    let mut message = sealed_by(&alice, to_bob(), "alice", "1");
    message["x_own"] = 9_007_199_254_740_993_u64.into();
    let (code, field) = refusal_of(&ask(&mut alice, &message).await);
    assert_eq!((&*code, &*field), ("unsafe_number", "x_own"));
    for agent in [&mut bob, &mut dave] {
        assert_eq!(agent.received().await, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn only_a_jwe_that_names_a_key_is_sealed_and_another_key_is_between_two_ends() {
    let without = Harbor::start().await;
    let with = holding(&["alice", "bob"]).await;
    for harbor in [&without, &with.harbor] {
        let mut alice = Agent::register(harbor, "alice").await;
        let mut bob = Agent::in_groups(harbor, "bob", &[("crew", &[])]).await;
        let members = json!({"receiver": {"agent_id": "bob"}});
        let whole = sealed_by(&alice, members.clone(), "eve", "1");
        let payload = &whole["payload"];
        let protected = |header: Value| {
            let mut payload = payload.clone();
            payload["protected"] = URL_SAFE_NO_PAD.encode(header.to_string()).into();
            payload
        };
        let in_the_open = json!({"protected": "e30", "header": {"kid": "eve-seal"},
            "ciphertext": ""});
        for payload in [
            Value::Null,
            json!("text"),
            json!([payload]),
            json!([payload["protected"], payload["ciphertext"]]),
            json!({"protected": payload["protected"]}),
            json!({"protected": "=", "ciphertext": ""}),
            json!({"protected": 1, "ciphertext": ""}),
            json!({"protected": URL_SAFE_NO_PAD.encode("kid"), "ciphertext": ""}),
            json!({"protected": URL_SAFE_NO_PAD.encode([0xff]), "ciphertext": ""}),
            in_the_open,
            protected(json!({"alg": "dir", "enc": "A256GCM"})),
            protected(json!({"kid": ""})),
            protected(json!({"kid": 7})),
            protected(json!(["eve-seal"])),
        ] {
            let mut message = alice.envelope(members.clone());
            message["payload"] = payload;
            message["encrypt"] = true.into();
            is_refused(&mut alice, &message).await;
        }
        // Any other form, of any other key, is forwarded as it is.
        let mut wide =
            json!({"receiver": {"agent_id": "bob"}, "group_id": "crew", "encrypt": true});
        wide["payload"] = protected(json!({"kid": "eve", "alg": "ECDH-ES", "crit": ["x"]}));
        wide["payload"]["header"] = json!({"more": 1});
        let wide = alice.envelope(wide);
        for message in [whole, wide] {
            let text = format!(" {message} ");
            alice.send_text(text.clone()).await;
            assert_eq!(alice.next().await["payload"]["recipients"], 1);
            assert_eq!(bob.next_text().await, text);
        }
        assert_eq!(bob.received().await, Vec::<Value>::new());
    }
    assert_eq!(with.harbor.metric("harbor_messages_opened_total"), 0.0);
}

#[tokio::test]
async fn a_header_is_taken_only_as_it_is_written_down() {
    let here = holding(&["alice", "bob"]).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let message = alice.envelope(json!({"receiver": {"agent_id": "bob"}, "encrypt": true}));
    let right = header(&message, "alice-seal");
    let changed = |member: &str, value: Value| {
        let mut header = right.clone();
        header[member] = value;
        header
    };
    for header in [
        changed("zip", "DEF".into()),
        changed("crit", json!(["exp"])),
        changed("exp", 1.into()),
        changed("alg", "A256KW".into()),
        changed("enc", "A128GCM".into()),
        changed("iss", "bob".into()),
        changed("aud", "alice".into()),
        changed("jti", "another".into()),
        changed("jti", Value::Null),
        json!({"alg": "dir", "enc": "A256GCM", "kid": "alice-seal"}),
    ] {
        let mut message = message.clone();
        message["payload"] = jwe(&header, b"1", &secret("alice"));
        is_refused(&mut alice, &message).await;
    }
    let mut wrong_key = message.clone();
    wrong_key["payload"] = jwe(&right, b"1", &secret("mallory"));
    is_refused(&mut alice, &wrong_key).await;
    for (member, value) in [
        ("header", json!({})),
        ("aad", json!("")),
        ("encrypted_key", json!("AAAA")),
        ("iv", json!("AAAA")),
        ("tag", json!("")),
    ] {
        let mut message = message.clone();
        message["payload"] = jwe(&right, b"1", &secret("alice"));
        message["payload"][member] = value;
        is_refused(&mut alice, &message).await;
    }
}
