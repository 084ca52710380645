//! Bearer tokens, wherever they are given.

use serde_json::json;
use synapse::{
    Envelope,
    client::{Client, Options, TokenSource},
};

use crate::support::{
    Agent, Raw,
    issuer::{self, Issuer},
    process::Process,
};

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
