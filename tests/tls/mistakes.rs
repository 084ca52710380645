//! What is not TLS, and what cannot be: told in one clear line, and nobody else is disturbed.

use harbor::Settings;
use synapse::client::{ConnectErrorKind, Options};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
};

use super::{connected, fails, works};
use crate::support::{
    Harbor, Raw, binary, eventually,
    pki::{Authority, text},
    process::Process,
    soon,
};

/// Who does not speak TLS is told so, and its connection ends without a reset.
#[tokio::test]
async fn plain_http_and_garbage_end_cleanly_and_disturb_nobody() {
    let authority = Authority::new();
    let harbor = Harbor::with(Settings {
        connect_deadline_seconds: Some(1),
        ..authority.settings()
    })
    .await;
    let client = connected(&harbor, "well", &authority).await;
    let mut silent = Raw::connect(&harbor).await;
    // Half a record header.
    let mut slow = Raw::connect(&harbor).await;
    slow.write(&[22, 3]).await;

    let mut plain = Raw::connect(&harbor).await;
    let answer = plain
        .ask("GET /healthz HTTP/1.1\r\nHost: harbor\r\n\r\n")
        .await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("https://"), "{}", answer.body);
    plain.ended().await;

    for garbage in [
        &[0; 64][..],
        &[22; 64],
        b"\x16\x03\x01\x00\x05hello",
        &[0xff; 4096],
    ] {
        let mut tcp = TcpStream::connect(harbor.addr()).await.unwrap();
        tcp.write_all(garbage).await.unwrap();
        let mut alert = Vec::new();
        let read = soon("the end", tcp.read_to_end(&mut alert)).await;
        read.expect("no reset");
        // None for half a handshake message, which ends at the deadline.
        assert!(alert.first().is_none_or(|kind| *kind == 21), "{alert:?}");
    }
    works(&client).await;
    silent.ended().await;
    slow.ended().await;
    eventually("each is counted", || {
        harbor.metric("harbor_tls_handshakes_failed_total") == 7.0
    })
    .await;
    works(&connected(&harbor, "later", &authority).await).await;
    works(&client).await;
}

/// Each end that speaks TLS tells one that does not apart from one that cannot be trusted.
#[tokio::test]
async fn a_wrong_scheme_is_told_as_such() {
    let authority = Authority::new();
    let secure = Harbor::with(authority.settings()).await;
    let open = Harbor::start().await;
    let over = |scheme: &str, harbor: &Harbor| format!("{scheme}://{}", harbor.addr());
    let (kind, said) = fails(Options::new(over("ws", &secure), "a")).await;
    assert_eq!(kind, ConnectErrorKind::NotHarbor, "{said}");
    let options = Options::new(over("wss", &open), "a").trust_authorities(authority.file());
    let (kind, said) = fails(options).await;
    assert_eq!(kind, ConnectErrorKind::NotHarbor, "{said}");
    assert!(said.contains("does not speak TLS"), "{said}");
}

/// What is wrong with the settings is said before anything is bound.
#[tokio::test]
async fn settings_that_cannot_be_are_told() {
    let authority = Authority::new();
    let (pair, other) = (authority.harbor(), authority.harbor());
    let none = || Some(authority.path("none.pem"));
    let anywhere = Some(([0, 0, 0, 0], 0).into());
    let given = pair.settings();
    let cases: [(Settings, &[&str]); 9] = [
        (
            Settings {
                tls_key: None,
                ..given.clone()
            },
            &["tls_certificate needs tls_key"],
        ),
        (
            Settings {
                tls_certificate: None,
                ..given.clone()
            },
            &["tls_key needs tls_certificate"],
        ),
        (
            Settings {
                tls_client_ca: none(),
                ..Settings::default()
            },
            &["tls_client_ca needs tls_certificate and tls_key"],
        ),
        (
            Settings {
                tls_key: none(),
                ..given.clone()
            },
            &["tls_key: cannot read", "none.pem"],
        ),
        (
            Settings {
                tls_certificate: Some(pair.key.clone()),
                ..given.clone()
            },
            &["tls_certificate: ", "holds no certificate"],
        ),
        (
            Settings {
                tls_key: Some(pair.certificate.clone()),
                ..given.clone()
            },
            &["tls_key: ", "holds no private key"],
        ),
        (
            Settings {
                tls_key: Some(other.key.clone()),
                ..given.clone()
            },
            &["tls_key: ", "is not the key of the certificate"],
        ),
        (
            Settings {
                tls_client_ca: Some(pair.key.clone()),
                ..given.clone()
            },
            &["tls_client_ca: ", "holds no certificate"],
        ),
        (
            Settings {
                listen: anywhere,
                ..given.clone()
            },
            &["listen: ", "loopback", "tls_client_ca"],
        ),
    ];
    for (settings, parts) in cases {
        let problems = settings.into_config().unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        for part in parts {
            assert!(problems[0].contains(part), "{part} is not in {problems:?}");
        }
    }
    let empty = Settings {
        tls_certificate: Some("".into()),
        tls_key: Some("".into()),
        ..Settings::default()
    };
    assert!(empty.into_config().is_ok(), "an empty path is none");
    let proven = Settings {
        listen: anywhere,
        tls_client_ca: Some(authority.file()),
        ..given
    };
    assert!(proven.into_config().is_ok(), "agents prove who they are");
}

/// The commands: the ready line of `harbor`, and `synapse` with its exit codes.
#[tokio::test]
async fn the_commands_speak_tls() {
    let authority = Authority::new();
    let (pair, alice) = (authority.harbor(), authority.agent("alice", &[]));
    let ca = authority.file();
    let harbor = Process::start(&[
        "--tls-certificate",
        text(&pair.certificate),
        "--tls-key",
        text(&pair.key),
        "--tls-client-ca",
        text(&ca),
    ])
    .await;
    assert!(harbor.url.starts_with("wss://127.0.0.1:"), "{}", harbor.url);
    let trusts = ["--ca", text(&ca)];
    let shows = [
        "--cert",
        text(&alice.certificate),
        "--key",
        text(&alice.key),
    ];
    let as_alice = ["--as", "alice"];
    for (arguments, status, part) in [
        ([&trusts[..], &shows, &as_alice].concat(), 0, ""),
        (
            [&trusts[..], &shows, &["--as", "bob"]].concat(),
            77,
            "sender_mismatch",
        ),
        (
            [&trusts[..], &as_alice].concat(),
            69,
            "asks for a client certificate",
        ),
        ([&shows[..], &as_alice].concat(), 69, "UnknownIssuer"),
        (vec!["--ca", "/no/such/file"], 64, "/no/such/file"),
    ] {
        let mut synapse = Command::new(binary("synapse"));
        let ran = synapse
            .args(["send", "--to", "alice", "--url", &harbor.url, "1"])
            .args(&arguments)
            .kill_on_drop(true)
            .output();
        let output = soon("it ends", ran).await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), usize::from(status != 0), "{said}");
        assert!(said.contains(part), "{part} is not in {said}");
    }
}
