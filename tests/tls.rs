//! Goal: over TLS everything is as without it, and certificates decide who is trusted, both ways.
//! Method: certificates made here; the Rust client, Python, and TLS by hand against a real Harbor.

use std::{fs, path::Path, sync::Arc, time::Duration};

use futures_util::StreamExt;
use harbor::Settings;
use rcgen::SanType;
use serde_json::{Value, json, value::to_raw_value};
use synapse::{
    Client, Code, Envelope,
    client::{ConnectErrorKind, Event, Options, State},
    tls::{PemFile, provider},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
        pki_types::ServerName,
        version::{TLS12, TLS13},
    },
};
use tokio_tungstenite::{Connector, connect_async_tls_with_config, tungstenite::Message};

use crate::support::{
    Agent, Harbor, Raw, binary, eventually,
    pki::{Authority, text},
    process::Process,
    python, soon,
};

fn options(harbor: &Harbor, agent_id: &str, authority: &Authority) -> Options {
    Options::new(harbor.url(), agent_id).trust_authorities(authority.file())
}

async fn connected(harbor: &Harbor, agent_id: &str, authority: &Authority) -> Client {
    let options = options(harbor, agent_id, authority);
    soon("it connects", Client::connect(options)).await.unwrap()
}

/// What connecting with these options ends with.
async fn fails(options: Options) -> (ConnectErrorKind, String) {
    let error = soon("it fails", Client::connect(options))
        .await
        .unwrap_err();
    (error.kind(), error.to_string())
}

/// A message to itself goes there and back.
async fn works(client: &Client) {
    let message = Envelope::new("note").to(client.agent_id().to_owned());
    assert_eq!(client.send(message).await.unwrap().recipients, 1);
    soon("it comes", client.next()).await.unwrap();
}

/// A TLS connection by hand, of one version.
async fn by_hand(
    harbor: &Harbor,
    authority: &Authority,
    version: &'static SupportedProtocolVersion,
) -> TlsStream<TcpStream> {
    let config = client_config(authority, version);
    let tcp = TcpStream::connect(harbor.addr()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(config).connect(name, tcp);
    soon("TLS is spoken", connecting).await.unwrap()
}

fn client_config(
    authority: &Authority,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let file = PemFile::read(&authority.file()).unwrap();
    file.trust_all(&mut roots).unwrap();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// A raw agent over TLS.
async fn raw_agent(harbor: &Harbor, authority: &Authority, id: &str) -> Agent {
    let connector = Connector::Rustls(client_config(authority, &TLS13));
    let connecting = connect_async_tls_with_config(harbor.url(), None, false, Some(connector));
    let (socket, _) = soon("the upgrade", connecting).await.unwrap();
    let mut agent = Agent {
        id: String::new(),
        socket,
        challenge: Value::Null,
    };
    agent.challenge = agent.next().await["payload"].clone();
    let answer = agent.try_register(json!({"agent_id": id}), json!({})).await;
    assert_eq!(answer["type"], "synapse.registered", "{answer}");
    agent
}

/// Python and Rust exchange 2 MiB each way, in messages that go in fragments and that do not.
#[tokio::test]
async fn python_and_rust_exchange_messages() {
    let authority = Authority::new();
    let harbor = Harbor::with(authority.settings()).await;
    assert!(harbor.url().starts_with("wss://127.0.0.1:"));
    let echo = connected(&harbor, "echo", &authority).await;
    for (count, bytes) in [(16, 20_000), (5, 400_000)] {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python/secure.py");
        let python = Command::new(python())
            .arg(program)
            .args([&harbor.url(), text(&authority.file())])
            .args([count.to_string(), bytes.to_string()])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .kill_on_drop(true)
            .output();
        let echoes = async {
            for _ in 0..count {
                let question = echo.next().await.unwrap();
                let answer = Envelope::new("answer").payload(question.payload.clone().into_owned());
                echo.reply(&question, answer).await.unwrap();
            }
        };
        let (output, ()) = soon("all is echoed", async { tokio::join!(python, echoes) }).await;
        let output = output.unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}{errors}");
        assert_eq!(printed.lines().next(), Some("TLSv1.3"));
        assert_eq!(printed.matches("ok ").count(), count, "{printed}");
    }
    echo.close().await;
    harbor.is_empty().await;
}

/// The doors answer over both versions of TLS, and HTTP/1.1 is what is agreed on.
#[tokio::test]
async fn the_http_doors_answer_over_tls() {
    let authority = Authority::new();
    let harbor = Harbor::with(authority.settings()).await;
    for (version, number) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        for (path, expected) in [
            ("/healthz", "ok\n"),
            ("/readyz", "ready\n"),
            ("/metrics", "# EOF\n"),
        ] {
            let mut tls = by_hand(&harbor, &authority, version).await;
            assert_eq!(tls.get_ref().1.protocol_version(), Some(number));
            assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: harbor\r\nConnection: close\r\n\r\n");
            tls.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            // An end without close_notify would be an error.
            let read = tls.read_to_string(&mut answer);
            soon("the answer", read).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            assert!(answer.ends_with(expected), "{answer}");
        }
    }
    assert_eq!(harbor.metric("harbor_tls_handshakes_failed_total"), 0.0);
}

/// New files are taken for new connections; those that are open go on; broken files change nothing.
#[tokio::test]
async fn a_new_certificate_is_taken_while_connections_stay_open() {
    let (older, newer) = (Authority::new(), Authority::new());
    let shown = older.harbor();
    let harbor = Harbor::with(shown.settings()).await;
    let reloads = |outcome: &str| {
        let label = format!("outcome=\"{outcome}\"");
        harbor.metric_with("harbor_tls_reloads_total", &label)
    };
    let stays = connected(&harbor, "stays", &older).await;
    assert_eq!(reloads("ok") + reloads("failed"), 0.0);

    fs::write(&shown.certificate, "no certificate").unwrap();
    eventually("the broken file is seen", || reloads("failed") == 1.0).await;
    connected(&harbor, "another", &older).await.close().await;

    newer.harbor().replace(&shown);
    eventually("the new pair is taken", || reloads("ok") == 1.0).await;
    works(&stays).await;
    works(&connected(&harbor, "new", &newer).await).await;
    let (kind, said) = fails(options(&harbor, "late", &older)).await;
    assert_eq!(kind, ConnectErrorKind::Untrusted, "{said}");

    fs::remove_file(&shown.key).unwrap();
    let failed = reloads("failed");
    eventually("the missing file is seen", || reloads("failed") > failed).await;
    works(&connected(&harbor, "newer", &newer).await).await;
    works(&stays).await;
    assert_eq!(reloads("ok"), 1.0);
}

/// The name in the client's certificate is the one agent it can be.
#[tokio::test]
async fn a_client_certificate_says_who_an_agent_is() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let harbor = Harbor::with(Settings {
        tls_client_ca: Some(authority.file()),
        ..authority.settings()
    })
    .await;
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let uri = |name: &str| SanType::URI(name.try_into().unwrap());
    let mail = SanType::Rfc822Name("a@example.org".try_into().unwrap());
    for (common_name, alternative_names, agent_id) in [
        ("alice", vec![], "alice"),
        ("Zoë", vec![mail], "Zoë"),
        ("alice", vec![dns("bob.example")], "bob.example"),
        (
            "alice",
            vec![
                dns("bob.example"),
                uri("spiffe://lab/bob"),
                uri("spiffe://lab/eve"),
            ],
            "spiffe://lab/bob",
        ),
    ] {
        let pair = authority.agent(common_name, &alternative_names);
        let right = pair.shown(options(&harbor, agent_id, &authority));
        let client = soon("the right one", Client::connect(right)).await.unwrap();
        works(&client).await;
        client.close().await;
        for wrong in ["mallory", "spiffe://lab/eve"] {
            let wrong = pair.shown(options(&harbor, wrong, &authority));
            let error = soon("the wrong one", Client::connect(wrong))
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ConnectErrorKind::Refused, "{error}");
            let refusal = error.refusal().unwrap();
            assert_eq!(refusal.code, Code::SenderMismatch);
            assert_eq!(refusal.field.as_deref(), Some("sender.agent_id"));
            assert!(refusal.reason.contains(agent_id), "{refusal}");
        }
    }
    let nameless = authority.agent("", &[]);
    let (kind, said) = fails(nameless.shown(options(&harbor, "x", &authority))).await;
    assert_eq!(kind, ConnectErrorKind::Refused, "{said}");
    assert!(said.contains("has no name"), "{said}");

    let (kind, said) = fails(options(&harbor, "alice", &authority)).await;
    assert_eq!(kind, ConnectErrorKind::Untrusted, "{said}");
    assert!(said.contains("asks for a client certificate"), "{said}");
    let stranger = foreign.agent("alice", &[]);
    let (kind, said) = fails(stranger.shown(options(&harbor, "alice", &authority))).await;
    assert_eq!(kind, ConnectErrorKind::Untrusted, "{said}");
    eventually("both are counted", || {
        harbor.metric("harbor_tls_handshakes_failed_total") == 2.0
    })
    .await;
    harbor.is_empty().await;
}

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
    assert_eq!(harbor.metric("harbor_tls_handshakes_failed_total"), 7.0);
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

/// A certificate that is no longer trusted is told while the client goes on trying.
#[tokio::test]
async fn reconnecting_does_not_hide_a_certificate_error() {
    let (older, newer) = (Authority::new(), Authority::new());
    let harbor = Harbor::with(older.settings()).await;
    let addr = harbor.addr();
    let patient =
        options(&harbor, "a", &older).backoff(Duration::from_millis(1), Duration::from_millis(20));
    let client = soon("it connects", Client::connect(patient)).await.unwrap();
    let mut events = client.events();
    assert!(harbor.drain().await);
    let listen = Settings {
        listen: Some(addr),
        ..newer.settings()
    };
    let harbor = Harbor::with(listen).await;
    soon("the certificate is told", async {
        loop {
            if let Some(Event::Disconnected(reason)) = events.next().await
                && reason.to_string().contains("invalid peer certificate")
            {
                return;
            }
        }
    })
    .await;
    let State::Disconnected(reason) = client.state() else {
        panic!("it goes on: {:?}", client.state());
    };
    assert!(
        reason.to_string().contains("no trusted connection"),
        "{reason}"
    );
    client.close().await;
    // At first it is told at once, however long one would wait for a Harbor.
    let waits = options(&harbor, "b", &older).first_connection_within(Duration::from_secs(3_600));
    assert_eq!(fails(waits).await.0, ConnectErrorKind::Untrusted);
}

/// The numbers of the messages that come until the connection ends.
async fn numbers_to_the_end(agent: &mut Agent) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(Ok(message)) = soon("the end", agent.socket.next()).await {
        if let Message::Text(text) = message {
            let frame: Value = serde_json::from_str(&text).unwrap();
            numbers.extend(frame["payload"]["n"].as_u64());
        }
    }
    numbers
}

/// A takeover from a blocked TLS connection loses nothing: what TLS may have passed on in part
/// is written again to the newer connection, so a message may come on both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_of_a_blocked_connection_loses_nothing() {
    const COUNT: u64 = 120;
    let authority = Authority::new();
    let harbor = Harbor::with(authority.settings()).await;
    let sender = connected(&harbor, "sender", &authority).await;
    let mut older = raw_agent(&harbor, &authority, "a").await;
    for n in 0..COUNT {
        let payload = json!({"n": n, "text": "x".repeat(90_000)});
        let message = Envelope::new("note")
            .to("a")
            .payload(to_raw_value(&payload).unwrap());
        assert_eq!(
            sender.send(message).await.unwrap().recipients,
            1,
            "message {n}"
        );
    }
    assert!(harbor.metric("harbor_outbox_bytes") > 0.0, "some wait");
    let mut newer = raw_agent(&harbor, &authority, "a").await;
    let mut on_newer = Vec::new();
    while on_newer.last() != Some(&(COUNT - 1)) {
        on_newer.extend(newer.next().await["payload"]["n"].as_u64());
    }
    let on_older = numbers_to_the_end(&mut older).await;
    assert!(!on_older.is_empty() && !on_newer.is_empty());
    assert!(on_older.is_sorted() && on_newer.is_sorted());
    let first = on_newer[0];
    assert!(first as usize <= on_older.len(), "none is left out");
    // One flush holds no more than one of these messages beyond those that are whole.
    assert!(
        on_older.len() - first as usize <= 1,
        "at most one comes twice"
    );
    assert_eq!(on_older, (0..on_older.len() as u64).collect::<Vec<_>>());
    assert_eq!(on_newer, (first..COUNT).collect::<Vec<_>>());
    assert_eq!(harbor.metric("harbor_deliveries_dropped_total"), 0.0);
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
