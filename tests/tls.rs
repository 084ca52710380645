//! Goal: over TLS everything is as without it, and certificates decide who is trusted, both ways.
//! Method: certificates made here; the Rust client, Python, and TLS by hand against a real Harbor.

mod certificates;
mod mistakes;

use std::{path::Path, sync::Arc};

use futures_util::StreamExt;
use serde_json::{Value, json, value::to_raw_value};
use synapse::{
    Client, Envelope,
    client::{ConnectErrorKind, Options},
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
    Agent, Harbor,
    pki::{Authority, text},
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
