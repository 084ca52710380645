//! Goal: a token that is wrong in one thing lets nobody in, and nobody learns more of it than they may.
//! Method: a table of tokens that no trusted issuer made as they are, and one of those that a trusted
//! issuer made and that say something unfit.

use harbor::Settings;
use serde_json::{Value, json};

use crate::support::{
    Agent, Harbor, Raw,
    issuer::{Issuer, Trusting, claims, now},
};

/// Asks for the upgrade with these header lines; what the refusal says.
pub async fn refused(harbor: &Harbor, header_lines: &str) -> Value {
    let mut peer = Raw::connect(harbor).await;
    let answer = peer.upgrade(header_lines).await;
    assert_eq!(answer.status, 401, "{header_lines}: {}", answer.head);
    let challenge = "www-authenticate: bearer error=\"invalid_token\"\r\n";
    assert!(answer.head.contains(challenge), "{}", answer.head);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["code"], "bad_token");
    body
}

pub const NOT_ACCEPTED: &str = "the token is not accepted";

/// Tokens that no trusted issuer made as they are. Nothing is told of any.
fn unverified(hmac: &Issuer, rsa: &Issuer) -> Vec<(&'static str, String)> {
    let payload = claims("alice", 60).to_string();
    let good = hmac.token("alice", 60);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let parts: Vec<&str> = good.split('.').collect();
    let tampered = good.replacen(
        parts[1],
        rsa.token("mallory", 60).split('.').nth(1).unwrap(),
        1,
    );
    let header = |header: Value| hmac.jws(&header.to_string(), &payload);
    // The RSA key is public: an HMAC with its modulus as the secret is anybody's.
    let mut confused = hmac.clone();
    confused.jwk["k"] = rsa.jwk["n"].clone();
    let none = |alg: &str| {
        let token = hmac.jws(&json!({"alg": alg}).to_string(), &payload);
        format!("{}.", token.rsplit_once('.').unwrap().0)
    };
    vec![
        ("empty", String::new()),
        ("no token", "word".to_owned()),
        ("two parts", message.to_owned()),
        ("four parts", format!("{good}.x")),
        ("no base64", good.replace('.', ".+")),
        ("padded", format!("{good}=")),
        ("without signature", format!("{message}.")),
        ("none", none("none")),
        ("None", none("None")),
        ("none with a signature", header(json!({"alg": "none"}))),
        ("no alg", header(json!({"kid": "HS256"}))),
        ("alg of another type", header(json!({"alg": ["HS256"]}))),
        ("HS512", header(json!({"alg": "HS512", "kid": "HS256"}))),
        ("the alg of another key", header(json!({"alg": "RS256"}))),
        (
            "the kid of another key",
            header(json!({"alg": "HS256", "kid": "RS256"})),
        ),
        (
            "an unknown kid",
            header(json!({"alg": "HS256", "kid": "x"})),
        ),
        (
            "crit",
            header(json!({"alg": "HS256", "crit": ["x"], "x": 1})),
        ),
        (
            "b64",
            header(json!({"alg": "HS256", "b64": false, "crit": ["b64"]})),
        ),
        (
            "RS256 as HS256",
            confused.jws(
                &json!({"alg": "HS256", "kid": "RS256"}).to_string(),
                &payload,
            ),
        ),
        (
            "RS256 as HS256 without kid",
            confused.jws(r#"{"alg":"HS256"}"#, &payload),
        ),
        (
            "its own key",
            header(json!({"alg": "HS256", "kid": "x", "jwk": Issuer::impostor().public()})),
        ),
        ("another secret", Issuer::impostor().token("alice", 60)),
        ("tampered", tampered),
        (
            "another's signature",
            format!(
                "{}.{signature}",
                rsa.token("alice", 60).rsplit_once('.').unwrap().0
            ),
        ),
        (
            "an untrusted issuer's",
            Issuer::new("EdDSA").token("alice", 60),
        ),
        ("too long", {
            let mut claims = claims("alice", 60);
            claims["fill"] = "x".repeat(7_000).into();
            hmac.token_of(&claims)
        }),
        (
            "expired and unverified",
            Issuer::impostor().token("alice", -60),
        ),
    ]
}

/// Tokens of a trusted issuer that are wrong in what they say, and a word of the reason.
fn unfit(hmac: &Issuer) -> Vec<(&'static str, String)> {
    let with = |name: &str, value: Value| {
        let mut claims = claims("alice", 60);
        claims[name] = value;
        claims
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        hmac.token_of(&claims)
    };
    let payload = |text: &str| hmac.jws(r#"{"alg":"HS256"}"#, text);
    let good = claims("alice", 60).to_string();
    vec![
        ("no exp", with("exp", Value::Null)),
        ("exp", with("exp", json!((now() + 60).to_string()))),
        ("cannot be read", with("exp", json!([now() + 60]))),
        ("exp", with("exp", json!((now() + 60) * 1_000))),
        ("expired", with("exp", json!(now() - 1))),
        ("expired", with("exp", json!(now()))),
        ("expired", with("exp", json!(0))),
        ("expired", with("exp", json!(-5.5))),
        ("expired", with("exp", json!(now() as f64 - 0.5))),
        ("not valid yet: its nbf", with("nbf", json!(now() + 40))),
        ("nbf", with("nbf", json!("soon"))),
        ("not valid yet: its iat", with("iat", json!(now() + 40))),
        ("iat", with("iat", json!(true))),
        ("another audience", with("aud", json!("other"))),
        (
            "another audience",
            with("aud", json!(["other", "Synapse-Harbor"])),
        ),
        ("another audience", with("aud", json!([]))),
        ("aud", with("aud", Value::Null)),
        ("aud", with("aud", json!(5))),
        ("aud", with("aud", json!(["synapse-harbor", 5]))),
        ("another issuer", with("iss", json!("https://evil.example"))),
        ("another issuer", with("iss", Value::Null)),
        ("another issuer", with("iss", json!(["https://id.example"]))),
        ("sub", with("sub", Value::Null)),
        ("sub", with("sub", json!(""))),
        ("sub", with("sub", json!(7))),
        ("sub", with("sub", json!("a\nb"))),
        (
            "given twice",
            payload(&good.replacen('{', r#"{"sub":"mallory","#, 1)),
        ),
        ("no JSON object", payload("[]")),
        ("no JSON object", payload("")),
        (
            "another type",
            hmac.jws(r#"{"alg":"HS256","typ":"logout+jwt"}"#, &good),
        ),
        (
            "in its header",
            hmac.jws(r#"{"alg":"HS256","crit":["b64"],"b64":true}"#, &good),
        ),
        (
            "in its header",
            hmac.jws(r#"{"alg":"HS256","enc":"A256GCM"}"#, &good),
        ),
        (
            "in its header",
            hmac.jws(r#"{"alg":"HS256","zip":"DEF"}"#, &good),
        ),
    ]
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_makes_nobody_anonymous() {
    let (hmac, rsa) = (Issuer::new("HS256"), Issuer::new("RS256"));
    // Open: whoever shows nothing may be anybody, but not who shows something wrong.
    let settings = Settings {
        auth: Some("open".to_owned()),
        token_issuer: Some("https://id.example".to_owned()),
        clock_window_seconds: Some(30),
        ..Settings::default()
    };
    let trusting = Trusting::start(&[&hmac, &rsa], settings).await;
    let harbor = &trusting.harbor;
    let mut count = 0.0;
    for (what, token) in unverified(&hmac, &rsa) {
        let headers = [
            (
                "Authorization",
                format!("Authorization: Bearer {token}\r\n"),
            ),
            (
                "Authorization",
                format!("authorization: bEARER  {token}\r\n"),
            ),
            (
                "Sec-WebSocket-Protocol",
                format!("Sec-WebSocket-Protocol: synapse.v1, synapse.bearer.{token}\r\n"),
            ),
        ];
        for (place, lines) in headers {
            let body = refused(harbor, &lines).await;
            assert_eq!(body["reason"], NOT_ACCEPTED, "{what}");
            assert_eq!(body["field"], place, "{what}");
            count += 1.0;
        }
    }
    for (word, mut token) in unfit(&hmac) {
        if !word.contains("issuer") {
            // Of the right issuer, so that only one thing is wrong.
            token = issued(&hmac, &token);
        }
        let body = refused(harbor, &format!("Authorization: Bearer {token}\r\n")).await;
        let reason = body["reason"].as_str().unwrap();
        assert!(reason.contains(word), "{word}: {reason}");
        assert!(!reason.contains(&token) && !reason.contains("mallory"));
        count += 1.0;
    }
    for lines in [
        "Authorization: Basic YTpi\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: \r\n",
        "Authorization: Bearer \u{e9}\r\n",
    ] {
        let body = refused(harbor, lines).await;
        assert_eq!(body["field"], "Authorization", "{lines}");
        count += 1.0;
    }
    // Bytes that are no text do not hide a token either.
    let lines = "Sec-WebSocket-Protocol: synapse.v1, synapse.bearer.x\u{e9}\r\n";
    let body = refused(harbor, lines).await;
    assert_eq!(body["field"], "Sec-WebSocket-Protocol");
    count += 1.0;
    assert_eq!(
        harbor.metric_with("harbor_refusals_total", "code=\"bad_token\""),
        count
    );
    assert_eq!(harbor.metric("harbor_unregistered"), 0.0);
    Agent::register(harbor, "anybody").await;
}

/// The same token with the issuer that is wanted.
fn issued(hmac: &Issuer, token: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let parts: Vec<String> = token
        .split('.')
        .take(2)
        .map(|part| String::from_utf8(URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
        .collect();
    let payload = parts[1].replacen('{', r#"{"iss":"https://id.example","#, 1);
    hmac.jws(&parts[0], &payload)
}
