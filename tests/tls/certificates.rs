//! Who is trusted: new certificates, those of clients, and those that are not accepted.

use std::{fs, time::Duration};

use harbor::Settings;
use rcgen::SanType;
use synapse::{
    Client, Code,
    client::{ConnectErrorKind, Event, State},
};

use super::{connected, fails, options, works};
use crate::support::{Harbor, eventually, pki::Authority, soon};

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
