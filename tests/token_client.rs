//! Goal: the client library and the command keep a connection that bears a token alive, and say why
//! when they cannot.
//! Method: sources of tokens that last a few seconds, at a Harbor that requires them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use harbor::Settings;
use synapse::{
    Code, Envelope,
    client::{
        Client, CloseReason, ConnectErrorKind, Event, Options, SendErrorKind, State, TokenSource,
    },
    keys::{Algorithm, Key, Keyring},
    token::{AUDIENCE_DEFAULT, Claims},
};
use tokio::process::Command;

use crate::support::{
    Harbor, binary, eventually,
    issuer::{Issuer, Trusting, now},
    soon,
};

/// A source of tokens for `agent_id` that last so long, and how often it was asked.
fn counted(agent_id: &'static str, seconds: i64) -> (TokenSource, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let issuer = Issuer::new("EdDSA");
    let source = TokenSource::function(move || {
        count.fetch_add(1, Ordering::Relaxed);
        let token = issuer.token(agent_id, seconds);
        async move { Ok::<_, String>(token) }
    });
    (source, asked)
}

async fn trusting() -> Trusting {
    Trusting::start(&[&Issuer::new("EdDSA")], Settings::default()).await
}

fn generation(client: &Client) -> u64 {
    match client.state() {
        State::Connected(session) => session.generation,
        other => panic!("{other:?}"),
    }
}

/// T57: idle and busy clients renew in band, on the connection they have.
#[tokio::test]
async fn a_client_renews_its_token_and_keeps_its_connection() {
    let trusting = trusting().await;
    let connect = async |agent_id, source| {
        let options = Options::new(trusting.harbor.url(), agent_id).token(source);
        Client::connect(options).await.unwrap()
    };
    let (source, idle_asked) = counted("idle", 4);
    let idle = connect("idle", source).await;
    let (source, busy_asked) = counted("busy", 4);
    let busy = connect("busy", source).await;
    let before = (generation(&idle), generation(&busy));
    let until = now() + 9;
    while now() < until {
        let sent = busy.send(Envelope::new("note").to("busy")).await.unwrap();
        assert_eq!(sent.recipients, 1);
        soon("it comes back", busy.next()).await.unwrap();
    }
    assert_eq!((generation(&idle), generation(&busy)), before);
    for asked in [idle_asked, busy_asked] {
        // Once to connect and then at about three quarters of each token.
        let asked = asked.load(Ordering::Relaxed);
        assert!((3..=6).contains(&asked), "asked {asked} times");
    }
    idle.close().await;
    busy.close().await;
}

#[tokio::test]
async fn a_file_is_read_again() {
    let trusting = trusting().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let issuer = Issuer::new("EdDSA");
    let write = |seconds| std::fs::write(&path, issuer.token("a", seconds) + "\n").unwrap();
    write(4);
    let options = Options::new(trusting.harbor.url(), "a").token(TokenSource::file(&path));
    let client = Client::connect(options).await.unwrap();
    let mut events = client.events();
    let before = generation(&client);
    // Not newer at first, which is told, and then it is.
    let told = soon("a renewal fails", events.next()).await;
    assert!(
        matches!(&told, Some(Event::NotRenewed(why)) if why.contains("no token that lasts longer")),
        "{told:?}"
    );
    write(60);
    tokio::time::sleep(Duration::from_secs(4)).await;
    client.send(Envelope::new("note").to("a")).await.unwrap();
    assert_eq!(generation(&client), before);
    client.close().await;
}

#[tokio::test]
async fn a_client_whose_token_cannot_be_renewed_says_so() {
    let trusting = trusting().await;
    // The first token is good; what comes after it is not.
    let then = |agent_id: &'static str, second: Result<String, &'static str>| {
        let asked = AtomicU32::new(0);
        TokenSource::function(move || {
            let is_first = asked.fetch_add(1, Ordering::Relaxed) == 0;
            let first = || Ok(Issuer::new("EdDSA").token(agent_id, 2));
            let given = if is_first { first() } else { second.clone() };
            async move { given }
        })
    };
    let another = Issuer::new("EdDSA").token("another", 600);
    for (agent_id, why) in [
        ("failing", "the issuer is on holiday"),
        ("wrong", "bad_token: the token is that of another agent"),
        ("fixed", "it is a fixed one"),
    ] {
        let source = match agent_id {
            "failing" => then(agent_id, Err(why)),
            "wrong" => then(agent_id, Ok(another.clone())),
            _ => TokenSource::from(Issuer::new("EdDSA").token(agent_id, 2)),
        };
        let options = Options::new(trusting.harbor.url(), agent_id).token(source);
        let client = Client::connect(options).await.unwrap();
        soon("it is closed", async {
            while client.next().await.is_some() {}
        })
        .await;
        let State::Closed(CloseReason::NotRenewed(reason)) = client.state() else {
            panic!("{:?}", client.state());
        };
        assert!(reason.contains(why), "{reason}");
        let error = client
            .send(Envelope::new("note").to("a"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), SendErrorKind::Closed);
        let text = error.to_string();
        assert!(text.contains(why) && text.contains("4003"), "{text}");
    }
}

#[tokio::test]
async fn a_token_that_is_refused_or_missing_is_told_at_once() {
    let trusting = trusting().await;
    let options = |source: TokenSource| Options::new(trusting.harbor.url(), "a").token(source);
    let expired = Issuer::new("EdDSA").token("a", -1);
    let error = Client::connect(options(expired.clone().into()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Unauthorised);
    assert_eq!(error.refusal().unwrap().code, Code::BadToken);
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("expired") && !text.contains(&expired),
        "{text}"
    );

    let missing = TokenSource::file("/no/such/token");
    let error = Client::connect(options(missing)).await.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::NoToken, "{error}");
    let another = Issuer::new("EdDSA").token("b", 60);
    let error = Client::connect(options(another.into())).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().code, Code::SenderMismatch);
}

/// Every connect asks the source: the token of the first may have ended meanwhile.
#[tokio::test]
async fn a_client_that_reconnects_shows_a_new_token() {
    let first = trusting().await;
    let addr = first.harbor.addr();
    let (source, asked) = counted("a", 600);
    let options = Options::new(first.harbor.url(), "a").token(source);
    let options = options.backoff(Duration::from_millis(20), Duration::from_millis(100));
    let client = Client::connect(options).await.unwrap();
    let settings = Settings {
        listen: Some(addr),
        tokens: Some(first.path.clone()),
        auth: Some("required".to_owned()),
        signatures: Some("verify_if_present".to_owned()),
        ..Settings::default()
    };
    let (harbor, path, _folder) = first.into_parts();
    assert!(harbor.drain().await);
    let second = Harbor::with(settings).await;
    eventually("it is there again", || {
        second.metric("harbor_agents") == 1.0
    })
    .await;
    assert!(asked.load(Ordering::Relaxed) >= 2);
    client.send(Envelope::new("note").to("a")).await.unwrap();
    // What the issuer's key proved, its end disproves: the reason is no renewal's.
    crate::support::issuer::write(&path, &[]);
    soon("it is closed", async {
        while client.next().await.is_some() {}
    })
    .await;
    assert_eq!(client.state(), State::Closed(CloseReason::Unauthorised));
}

/// Runs the command; its exit status, what it printed and what it complained of.
async fn synapse(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary("synapse"));
    let output = soon("synapse ends", command.args(arguments).output())
        .await
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[tokio::test]
async fn the_command_issues_tokens_and_shows_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (issuer, trusted, shared) = (at("issuer.json"), at("tokens.json"), at("shared.json"));
    let keygen = [
        "--keys", &issuer, "--agent", "issuer", "keygen", "--public", &trusted,
    ];
    assert_eq!(synapse(&keygen).await.0, Some(0));
    let harbor = Harbor::with(Settings {
        tokens: Some(trusted.clone().into()),
        token_audience: Some("here".to_owned()),
        token_issuer: Some("us".to_owned()),
        auth: Some("required".to_owned()),
        signatures: Some("verify_if_present".to_owned()),
        ..Settings::default()
    })
    .await;
    let issue = [
        "--keys",
        &issuer,
        "--agent",
        "alice",
        "token",
        "--audience",
        "here",
        "--issuer",
        "us",
    ];
    let (status, token, complaint) = synapse(&issue).await;
    assert_eq!((status, complaint.as_str()), (Some(0), ""));
    let file = at("alice.jwt");
    std::fs::write(&file, &token).unwrap();
    let url = harbor.url();
    let send = [
        "--url",
        &url,
        "--token-file",
        &file,
        "--agent",
        "alice",
        "send",
        "--to",
        "alice",
        "1",
    ];
    let (status, printed, complaint) = synapse(&send).await;
    assert_eq!(status, Some(0), "{printed}{complaint}");

    std::fs::write(&file, "no token at all").unwrap();
    let (status, _, complaint) = synapse(&send).await;
    assert_eq!(status, Some(66), "{complaint}");
    let (_, short, _) = synapse(&["--keys", &issuer, "--agent", "alice", "token"]).await;
    std::fs::write(&file, short).unwrap();
    let (status, _, complaint) = synapse(&send).await;
    assert_eq!(status, Some(77), "{complaint}");
    assert!(complaint.contains("another audience"), "{complaint}");

    // Keys that cannot: without a secret, of another algorithm, or more than one without a word which.
    let mut ring = Keyring::default();
    for algorithm in Algorithm::ALL {
        ring.add(Key::generate(algorithm.jwk(), "issuer", algorithm).unwrap())
            .unwrap();
    }
    ring.write(std::path::Path::new(&shared)).unwrap();
    for (keys, kid, status) in [
        (&trusted, None, 66),
        (&shared, None, 64),
        (&shared, Some("HS512"), 66),
        (&shared, Some("HS256"), 0),
    ] {
        let mut arguments = vec!["--keys", keys.as_str(), "--agent", "alice", "token"];
        arguments.extend(kid.iter().flat_map(|kid| ["--kid", *kid]));
        assert_eq!(synapse(&arguments).await.0, Some(status), "{arguments:?}");
    }
    assert_eq!(synapse(&["--keys", &issuer, "token"]).await.0, Some(64));
}

/// What the library issues is what the published key makes by another library.
#[test]
fn an_issued_token_is_the_one_that_others_make() {
    let (iat, exp) = (1_700_000_000, 1_700_003_600);
    let claims = Claims {
        sub: "alice".into(),
        aud: AUDIENCE_DEFAULT.into(),
        iss: None,
        iat,
        exp,
    };
    for (alg, algorithm, secret) in [
        ("HS256", Algorithm::HmacSha256, "k"),
        ("EdDSA", Algorithm::Ed25519, "d"),
    ] {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let issuer = Issuer::new(alg);
        let secret = URL_SAFE_NO_PAD
            .decode(issuer.jwk[secret].as_str().unwrap())
            .unwrap();
        let key = Key::from_secret(alg, "issuer", algorithm, &secret).unwrap();
        let header = format!(r#"{{"alg":"{alg}","typ":"JWT","kid":"{alg}"}}"#);
        let payload =
            format!(r#"{{"sub":"alice","aud":"synapse-harbor","iat":{iat},"exp":{exp}}}"#);
        assert_eq!(key.issue(&claims).unwrap(), issuer.jws(&header, &payload));
    }
}
