//! Goal: a signature holds every field of its message, at every depth.
//! Method: with each algorithm, every place of a message altered, set to null, removed, added to, given twice, and
//! exchanged with that of another message; each is refused with its code, and nothing is delivered.

use harbor::Settings;
use serde_json::{Value, json};
use synapse::keys::{Algorithm, Key};

use crate::support::{
    Agent,
    agent::refusal_of,
    guarded::{
        Guarded, bad_signature, guarded, key, message, nothing_came, pair, refusal, register,
        register_with, signed,
    },
};

/// Alice, who sends; Bob, who would get it by name; Carol, who would get it as a member; and Mallory, who sends too.
struct Scene {
    guarded: Guarded,
    alice_key: Key,
    mallory_key: Key,
    alice: Agent,
    bob: Agent,
    carol: Agent,
}

impl Scene {
    async fn new(algorithm: Algorithm) -> Scene {
        let [alice_key, bob_key, carol_key, mallory_key] =
            ["alice", "bob", "carol", "mallory"].map(|agent| key(agent, algorithm));
        let keys = [&alice_key, &bob_key, &carol_key, &mallory_key];
        let guarded = guarded(&keys, Settings::default()).await;
        let url = guarded.harbor.url();
        let in_crew = json!({"groups": [{"group_id": "crew", "roles": ["worker"]}]});
        Scene {
            alice: register(&url, &alice_key).await,
            bob: register(&url, &bob_key).await,
            carol: register_with(&url, &carol_key, in_crew).await,
            guarded,
            alice_key,
            mallory_key,
        }
    }

    /// A frame that Alice's connection must be refused, and that nobody gets.
    async fn refuses(&mut self, frame: &Value, want: &(String, String), what: &str) {
        let told = refusal(&mut self.alice, frame).await;
        assert_eq!(told, *want, "{what}: {frame}");
        self.nothing_came().await;
    }

    async fn nothing_came(&mut self) {
        let receivers = &mut [&mut self.bob, &mut self.carol];
        nothing_came(&mut self.alice, &self.alice_key, receivers).await;
    }

    /// The whole message goes to Bob and to Carol, as it was sent.
    async fn delivers(&mut self, frame: &str) {
        self.alice.send_text(frame).await;
        let answer = self.alice.next().await;
        assert_eq!(answer["payload"]["recipients"], 2, "{answer}: {frame}");
        let sent: Value = serde_json::from_str(frame).unwrap();
        for receiver in [&mut self.bob, &mut self.carol] {
            let mut got = receiver.next().await;
            let mark = got.as_object_mut().unwrap().remove("harbor").unwrap();
            assert_eq!(mark, json!({"verified": self.alice_key.kid}));
            assert_eq!(got, sent);
        }
    }
}

/// A message with every field that a sender may set; no two numbers give the same value anywhere.
fn full(agent: &Agent, key: &Key, number: usize) -> Value {
    let mark = |text: &str| format!("{text} {number}");
    let members = json!({
        "type": mark("chat"),
        "sender": {"agent_id": agent.id, "agent_name": mark("A"), "endpoint": mark("http://a"), "version": mark("1"),
            "capabilities": [mark("translate"), mark("draw")], "x-more": {"k": [number]}},
        "receiver": {"agent_id": "bob", "agent_name": mark("B"), "capabilities": [mark("x")]},
        "correlation_id": mark("c"), "reply_to": mark("alice"), "group_id": "crew",
        "payload": {"b": [1.5 + number as f64, 1e21 * (1.0 + number as f64), mark("é\u{e000}😀"), [mark("deep"), {"k": number}]],
            "a": {"open": number, "": mark("no name")}, "signature": mark("inner"), "harbor": {"verified": mark("inner")}},
        "conversation_id": mark("talk"), "ttl": 60 + number, "broadcast": false, "encrypt": false,
        "target_type": "role", "target_ids": ["worker", mark("r")], "priority": 7 - number,
        "expires_at": format!("209{number}-01-01T00:00:00Z"), "unknown": {"k": {"k": number}}, "Zeta": [number],
    });
    message(agent, key, members)
}

/// Every place in a value, as a JSON pointer, the objects and arrays themselves included.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(key, it)| (key.clone(), it)).collect(),
        Value::Array(array) => array
            .iter()
            .enumerate()
            .map(|(n, it)| (n.to_string(), it))
            .collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let place = format!("{at}/{name}");
        places(child, &place, found);
        found.push(place);
    }
}

/// Another value for this place, which says nothing wrong in itself.
fn altered(place: &str, value: &Value) -> Value {
    match (place, value) {
        ("/version", _) => "1.0.1".into(),
        ("/target_type", _) => "specific".into(),
        ("/timestamp", _) => (jiff::Timestamp::now() - jiff::SignedDuration::from_secs(7))
            .to_string()
            .into(),
        ("/expires_at", _) => "2090-01-01T00:00:00.000Z".into(),
        ("/signature", Value::String(text)) => {
            let (first, rest) = text.split_at(1);
            format!("{}{rest}", if first == "A" { "B" } else { "A" }).into()
        }
        ("/signature_algorithm", Value::String(text)) => match text.as_str() {
            "Ed25519" => "HMAC-SHA256".into(),
            _ => "Ed25519".into(),
        },
        ("/priority", _) => 9.into(),
        ("/ttl", _) => 59.into(),
        (_, Value::String(text)) => format!("{text}x").into(),
        (_, Value::Number(number)) => (number.as_f64().unwrap() * 3.0 + 1.0).into(),
        (_, Value::Bool(on)) => (!on).into(),
        (_, Value::Array(_)) => json!(["reviewer"]),
        (_, Value::Object(object)) => {
            let mut object = object.clone();
            object.insert("added".to_owned(), 1.into());
            object.into()
        }
        (_, Value::Null) => 0.into(),
    }
}

/// The frame with another value at one place, or without it.
fn with(frame: &Value, place: &str, value: Option<Value>) -> Value {
    let mut frame = frame.clone();
    let (parent, name) = place.rsplit_once('/').unwrap();
    match (frame.pointer_mut(parent).unwrap(), value) {
        (Value::Object(object), Some(value)) => drop(object.insert(name.to_owned(), value)),
        (Value::Object(object), None) => drop(object.remove(name)),
        (Value::Array(array), Some(value)) => array[name.parse::<usize>().unwrap()] = value,
        (Value::Array(array), None) => drop(array.remove(name.parse().unwrap())),
        (other, _) => panic!("{place} in {other}"),
    }
    frame
}

/// How a message without this place is refused: what is needed is missed before any signature is looked at.
fn refusal_without(place: &str) -> (String, String) {
    match place {
        "/id"
        | "/version"
        | "/type"
        | "/payload"
        | "/timestamp"
        | "/signature"
        | "/signature_algorithm" => pair("missing_field", &place[1..]),
        "/sender" | "/sender/agent_id" => pair("missing_field", "sender.agent_id"),
        "/receiver/agent_id" => pair("missing_field", "receiver.agent_id"),
        _ => bad_signature(),
    }
}

/// How one with null there is: as without it, but a payload may be null, and a list holds none.
fn refusal_of_null(place: &str) -> (String, String) {
    match place {
        "/payload" => bad_signature(),
        "/sender/capabilities/0" | "/sender/capabilities/1" => {
            pair("invalid_field", "sender.capabilities")
        }
        "/receiver/capabilities/0" => pair("invalid_field", "receiver.capabilities"),
        "/target_ids/0" | "/target_ids/1" => pair("invalid_field", "target_ids"),
        place => refusal_without(place),
    }
}

async fn every_place_is_held(algorithm: Algorithm) {
    let mut scene = Scene::new(algorithm).await;
    let original = full(&scene.alice, &scene.alice_key, 0);
    let mut found = Vec::new();
    places(&original, "", &mut found);
    assert!(found.len() >= 55, "{}", found.len());
    for place in &found {
        let value = original.pointer(place).unwrap();
        let other = altered(place, value);
        assert_ne!(other, *value);
        let changes = [
            ("altered", Some(other), bad_signature()),
            ("null", Some(Value::Null), refusal_of_null(place)),
            ("removed", None, refusal_without(place)),
        ];
        for (what, value, want) in changes {
            let frame = with(&original, place, value);
            scene
                .refuses(&frame, &want, &format!("{place} {what}"))
                .await;
        }
    }
    scene.delivers(&original.to_string()).await;
}

#[tokio::test]
async fn hmac_sha256_holds_every_place() {
    every_place_is_held(Algorithm::HmacSha256).await;
}

#[tokio::test]
async fn hmac_sha512_holds_every_place() {
    every_place_is_held(Algorithm::HmacSha512).await;
}

#[tokio::test]
async fn ed25519_holds_every_place() {
    every_place_is_held(Algorithm::Ed25519).await;
}

/// Two messages of one sender, and of two: no place of one fits the other.
#[tokio::test]
async fn nothing_is_exchanged_between_two_messages() {
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::new(algorithm).await;
        let mallory = register(&scene.guarded.harbor.url(), &scene.mallory_key).await;
        let original = full(&scene.alice, &scene.alice_key, 0);
        let same_sender = full(&scene.alice, &scene.alice_key, 1);
        let other_sender = full(&mallory, &scene.mallory_key, 2);
        let mut found = Vec::new();
        places(&original, "", &mut found);
        let mut exchanged = 0;
        for (whose, other) in [("her own", &same_sender), ("another's", &other_sender)] {
            for place in &found {
                let (mine, theirs) = (original.pointer(place), other.pointer(place).cloned());
                if mine == theirs.as_ref() {
                    continue;
                }
                let frame = with(&original, place, theirs);
                let what = format!("{place} of {whose}");
                scene.refuses(&frame, &bad_signature(), &what).await;
                exchanged += 1;
            }
        }
        assert!(exchanged > 75, "{exchanged}");
        // All of it: rightly signed, and still not hers to send.
        let want = pair("sender_mismatch", "sender.agent_id");
        scene.refuses(&other_sender, &want, "another's whole").await;
        // Signed with the key of another agent, or with a new one.
        for foreign in [&scene.mallory_key.clone(), &key("alice", algorithm)] {
            let frame = signed(full(&scene.alice, &scene.alice_key, 3), foreign);
            scene.refuses(&frame, &bad_signature(), "another key").await;
        }
        scene.delivers(&original.to_string()).await;
        scene.delivers(&same_sender.to_string()).await;
    }
}

/// What a sender did not write is nowhere taken, not even as the zero value that means absent.
#[tokio::test]
async fn nothing_is_added() {
    let zeros = json!({"correlation_id": "", "reply_to": "", "group_id": "", "conversation_id": "", "ttl": 0,
        "broadcast": false, "encrypt": false, "target_type": "", "target_ids": [], "priority": 4, "expires_at": null,
        "x": null});
    let values = json!({"correlation_id": "c", "reply_to": "eve", "group_id": "crew", "conversation_id": "t", "ttl": 1,
        "broadcast": true, "encrypt": true, "target_type": "all", "target_ids": ["eve"], "priority": 9,
        "expires_at": "2099-01-01T00:00:00Z", "x": 1});
    let of_endpoint = json!({"agent_name": "", "endpoint": "", "system_id": "", "version": "", "capabilities": [], "x": 1});
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::new(algorithm).await;
        let members = json!({"receiver": {"agent_id": "bob"}, "payload": {"list": [{}, []]}});
        let bare = message(&scene.alice, &scene.alice_key, members);
        for added in [&zeros, &values] {
            for (name, value) in added.as_object().unwrap() {
                let frame = with(&bare, &format!("/{name}"), Some(value.clone()));
                scene.refuses(&frame, &bad_signature(), name).await;
            }
        }
        for endpoint in ["sender", "receiver"] {
            for (name, value) in of_endpoint.as_object().unwrap() {
                let place = format!("/{endpoint}/{name}");
                let frame = with(&bare, &place, Some(value.clone()));
                scene.refuses(&frame, &bad_signature(), &place).await;
            }
        }
        for place in ["/payload/x", "/payload/list/0/x"] {
            let frame = with(&bare, place, Some(Value::Null));
            scene.refuses(&frame, &bad_signature(), place).await;
        }
        for place in ["/payload/list", "/payload/list/1"] {
            let mut frame = bare.clone();
            let array = frame.pointer_mut(place).unwrap().as_array_mut().unwrap();
            array.push(Value::Null);
            scene.refuses(&frame, &bad_signature(), place).await;
        }
        // Some readers take a name in other letters for the same.
        for name in ["Sender", "RECEIVER", "Payload", "Signature", "ID", "Type"] {
            let value = bare[name.to_lowercase()].clone();
            let frame = with(&bare, &format!("/{name}"), Some(value));
            scene.refuses(&frame, &bad_signature(), name).await;
        }
        let marked = with(&bare, "/harbor", Some(json!({"verified": "alice"})));
        let want = pair("reserved_field", "harbor");
        scene.refuses(&marked, &want, "harbor").await;
    }
}

/// A key given twice is refused wherever it stands, whichever of the two a reader would take.
#[tokio::test]
async fn nothing_is_given_twice() {
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::new(algorithm).await;
        let original = full(&scene.alice, &scene.alice_key, 0);
        let text = original.to_string();
        let mut cases: Vec<(String, String)> = Vec::new();
        for (name, value) in original.as_object().unwrap() {
            let other = altered(&format!("/{name}"), value);
            for second in [value, &other] {
                let member = format!(r#"{{"{name}":{second},"#);
                cases.push((text.replacen('{', &member, 1), name.clone()));
                let escaped = format!(
                    r#","\u{:04x}{}":{second}}}"#,
                    name.as_bytes()[0],
                    &name[1..]
                );
                cases.push((
                    format!("{}{escaped}", text.strip_suffix('}').unwrap()),
                    name.clone(),
                ));
            }
        }
        for (object, name, field) in [
            ("sender", "agent_id", "sender.agent_id"),
            ("sender", "capabilities", "sender.capabilities"),
            ("receiver", "agent_id", "receiver.agent_id"),
            ("payload", "b", "payload"),
            ("unknown", "k", "unknown"),
        ] {
            let value = &original[object][name];
            let inside = format!(r#""{object}":{{"{name}":{value},"#);
            let twice = text.replace(&format!(r#""{object}":{{"#), &inside);
            cases.push((twice, field.to_owned()));
        }
        for (frame, field) in cases {
            assert_ne!(frame, text);
            scene.alice.send_text(frame.as_str()).await;
            let told = refusal_of(&scene.alice.next().await);
            assert_eq!(told, pair("duplicate_key", &field), "{frame}");
        }
        scene.nothing_came().await;
    }
}

/// How it is spelled is no part of a message.
#[tokio::test]
async fn a_message_that_is_spelled_otherwise_is_what_it_was() {
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::new(algorithm).await;
        for (at, spell) in [
            |frame: &Value| frame.to_string(),
            |frame: &Value| format!(" {frame:#}\r\n"),
            |frame: &Value| {
                let members = frame.as_object().unwrap().iter().rev();
                let members: Vec<_> = members
                    .map(|(key, it)| format!("{}:{it}", json!(key)))
                    .collect();
                format!("{{{}}}", members.join(","))
            },
            |frame: &Value| {
                frame
                    .to_string()
                    .replace(".5,", ".50,")
                    .replace("chat", r"\u0063hat")
            },
            |frame: &Value| {
                let signature = frame["signature"].as_str().unwrap();
                let escaped = format!(r"\u{:04x}{}", signature.as_bytes()[0], &signature[1..]);
                frame.to_string().replace(signature, &escaped)
            },
        ]
        .iter()
        .enumerate()
        {
            let frame = full(&scene.alice, &scene.alice_key, at);
            let spelled = spell(&frame);
            assert_eq!(serde_json::from_str::<Value>(&spelled).unwrap(), frame);
            scene.delivers(&spelled).await;
        }
    }
}
