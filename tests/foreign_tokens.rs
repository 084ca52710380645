//! Goal: tokens that libraries of other languages make are taken, renewed and ended like our own.
//! Method: jwcrypto in Python and jose in Node sign with keys that the RFCs publish; each registers
//! with a real Harbor that requires it, renews in band and outlives its first token.

use harbor::Settings;
use serde_json::json;

use crate::{
    foreign_clients::{Language, run},
    support::issuer::{ALGORITHMS, Issuer, Trusting},
};

/// Runs the program of a language for one algorithm; what it prints.
async fn plays(language: Language, alg: &'static str, further: &'static [&'static str]) -> String {
    let issuers = ALGORITHMS.map(Issuer::new);
    let all: Vec<&Issuer> = issuers.iter().collect();
    let trusting = Trusting::start(&all, Settings::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let keys: Vec<_> = issuers.iter().map(|issuer| &issuer.jwk).collect();
    std::fs::write(&file, json!({ "keys": keys }).to_string()).unwrap();
    let mut program = language.program("tokens").unwrap();
    program.arg(trusting.harbor.url()).arg(&file).arg(alg);
    program.args(further);
    let played = tokio::task::spawn_blocking(move || run(program, "the bearer"));
    let printed = played.await.unwrap();
    trusting.harbor.is_empty().await;
    printed
}

#[tokio::test]
async fn python_registers_renews_and_ends_with_every_algorithm() {
    let played = ALGORITHMS.map(|alg| plays(Language::Python, alg, &[]));
    for printed in futures_util::future::join_all(played).await {
        let steps: Vec<&str> = printed.lines().collect();
        let want = [
            "ok   registered",
            "ok   renewed",
            "ok   still here",
            "ok   ended",
        ];
        assert_eq!(steps, want);
    }
}

#[tokio::test]
async fn node_registers_by_a_header_and_by_a_subprotocol() {
    let played = [
        plays(Language::Node, "ES256", &["header"]),
        plays(Language::Node, "RS256", &["subprotocol"]),
        plays(Language::Node, "EdDSA", &["subprotocol"]),
        plays(Language::Node, "HS256", &["header"]),
    ];
    for printed in futures_util::future::join_all(played).await {
        let steps: Vec<&str> = printed.lines().collect();
        assert_eq!(
            steps,
            ["ok   registered", "ok   renewed", "ok   still here"]
        );
    }
}
