//! Goal: no secret of a key leaves the keyring, and no token is repeated: not in logs, metrics, answers or complaints.
//! Method: a Harbor that logs all it can, agents that register rightly and wrongly, and a look for
//! every secret, in each spelling it could have, in all that came out.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::json;
use synapse::{
    Envelope,
    client::{Client, Options, TokenSource},
    keys::{Algorithm, Jwk, Key, Keyring},
};

use crate::support::{
    Agent, Raw, binary,
    issuer::{self, Issuer},
    process::Process,
};

/// A secret as it could be written; its beginning is enough to be found.
fn spellings(key: &Key) -> Vec<String> {
    let jwk = Jwk::from(key);
    let text = if jwk.k.is_empty() { &jwk.d } else { &jwk.k };
    let bytes = URL_SAFE_NO_PAD.decode(&**text).unwrap();
    let start = &bytes[..12];
    let hex: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = format!("{start:?}");
    vec![
        text[..16].to_owned(),
        STANDARD.encode(start),
        hex.to_uppercase(),
        hex,
        list.trim_matches(['[', ']']).to_owned(),
    ]
}

/// Tokens are secrets too, good ones and those that are refused, wherever they are given.
#[tokio::test]
async fn tokens_are_in_nothing_that_comes_out() {
    let (issuer, stranger) = (Issuer::new("HS256"), Issuer::new("EdDSA"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.json");
    issuer::write(&path, &[&issuer]);
    let file = path.display().to_string();
    let arguments = ["--log-level", "trace", "--tokens", &file];
    let harbor = Process::with_files(256, &arguments).await;
    let good = [issuer.token("a", 4), issuer.token("a", 60)];
    let bad = [
        issuer.token("a", -1),
        issuer.token("b", 60),
        stranger.token("a", 60),
    ];
    let mut came_out = String::new();

    let options = |token: &str| Options::new(&harbor.url, "a").token(token);
    let source = {
        let (good, asked) = (good.clone(), std::sync::atomic::AtomicUsize::new(0));
        TokenSource::function(move || {
            let token =
                good[1.min(asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed))].clone();
            async move { Ok::<_, String>(token) }
        })
    };
    let renewing = Options::new(&harbor.url, "a").token(source);
    came_out += &format!("{renewing:?}");
    let client = Client::connect(renewing).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    client.send(Envelope::new("note").to("a")).await.unwrap();
    came_out += &format!("{} {client:?}", client.next().await.unwrap().to_json());
    client.close().await;
    for token in &bad {
        let options = options(token);
        came_out += &format!("{options:?}");
        let error = Client::connect(options).await.unwrap_err();
        came_out += &format!("{error} {error:?}");
    }
    // In band and as a subprotocol, with all that is answered.
    let mut agent = Agent::connect_to(&harbor.url).await;
    let answer = agent
        .try_register(json!({"agent_id": "a"}), json!({}))
        .await;
    came_out += &answer.to_string();
    for payload in bad.iter().chain(&good).flat_map(|token| {
        [
            json!({"token": token}),
            json!({"token": [token]}),
            json!({"token": {token: 1}}),
            json!(token),
        ]
    }) {
        let renewal = agent.envelope(json!({"type": "synapse.renew", "payload": payload}));
        agent.send(&renewal).await;
        came_out += &agent.next_text().await;
    }
    for token in bad.iter().chain(&good) {
        let mut peer = Raw::connect_to(harbor.addr()).await;
        let offered = format!("Sec-WebSocket-Protocol: synapse.v1, synapse.bearer.{token}\r\n");
        let answer = peer.upgrade(&offered).await;
        came_out += &(answer.head + &answer.body);
    }
    came_out += &harbor.metrics().await;
    came_out += &harbor.said().await;
    assert!(came_out.contains("bad_token") && came_out.contains("TokenSource"));
    for token in bad.iter().chain(&good) {
        // Heads are given in small letters.
        let signature = token.rsplit_once('.').unwrap().1;
        for secret in [signature.to_owned(), signature.to_lowercase()] {
            assert!(!came_out.contains(&secret), "{secret}");
        }
    }
    let secret = issuer.jwk["k"].as_str().unwrap();
    assert!(!came_out.contains(&secret[..16]));
}

#[tokio::test]
async fn secrets_are_in_nothing_that_comes_out() {
    let keys = Algorithm::ALL
        .map(|algorithm| Key::generate(algorithm.wire(), algorithm.jwk(), algorithm).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut ring = Keyring::default();
    for key in &keys {
        ring.add(key.clone()).unwrap();
    }
    ring.write(&path).unwrap();
    let file = path.display().to_string();
    let arguments = [
        "--log-level",
        "trace",
        "--auth",
        "required",
        "--keys",
        &file,
    ];
    let harbor = Process::with_files(256, &arguments).await;
    let mut came_out = String::new();
    for key in &keys {
        let options = Options::new(&harbor.url, &key.agent_id);
        let client = Client::connect(options.clone().key(key.clone()))
            .await
            .unwrap();
        let message = Envelope::new("note").to(key.agent_id.clone());
        client.send(message).await.unwrap();
        came_out += &client.next().await.unwrap().to_json();
        came_out += &format!("{client:?} {key:?} {:?}", Jwk::from(key));
        client.close().await;
        let unsigned = Client::connect(options.clone()).await.unwrap_err();
        let another = Key::generate("x", &key.agent_id, key.algorithm()).unwrap();
        let wrong = Client::connect(options.key(another)).await.unwrap_err();
        came_out += &format!("{unsigned} {unsigned:?} {wrong} {wrong:?}");
    }
    came_out += &harbor.metrics().await;
    came_out += &harbor.said().await;
    // Files that are wrong in each place, and what is said of them.
    let right = std::fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("\"k\": \"", "\"k\": \"="),
        ("\"d\": \"", "\"d\": \"AAAA"),
        ("\"use\": \"sig\"", "\"use\": 1"),
        ("\"alg\"", "\"alg"),
    ] {
        std::fs::write(&path, right.replace(from, to)).unwrap();
        let ended = std::process::Command::new(binary("harbor"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(78), "{from}");
        came_out += &String::from_utf8(ended.stderr).unwrap();
    }
    assert!(came_out.contains("harbor_refusals_total") && came_out.contains("keys.json"));
    for key in &keys {
        for secret in spellings(key) {
            assert!(!came_out.contains(&secret), "{}: {secret}", key.kid);
        }
    }
}
