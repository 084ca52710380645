//! Goal: a receiver that does not take its messages holds up its own socket, loses nothing, and is
//! told why its sends are not answered.

use std::time::Duration;

use harbor::Settings;
use synapse::{
    Envelope,
    client::{Event, Events, SendErrorKind, State},
};

use super::{client, connected, next, numbered, options};
use crate::support::{Harbor, eventually, soon};

/// Waits for `synapse.draining`; the time it names.
pub async fn draining(events: &mut Events) -> Duration {
    let told = async {
        loop {
            if let Some(Event::Draining { reconnect_after }) = events.next().await {
                return reconnect_after;
            }
        }
    };
    soon("draining is told", told).await
}

fn large(number: usize) -> Envelope<'static> {
    let payload = format!("{number:06}{}", "x".repeat(64 << 10));
    Envelope::new("large")
        .to("slow")
        .payload_of(&payload)
        .unwrap()
}

#[tokio::test]
async fn a_full_inbox_stops_the_socket_and_loses_nothing() {
    const MESSAGES: usize = 500;
    let settings = Settings {
        outbox_bytes: Some(64 << 20),
        ..Settings::default()
    };
    let harbor = Harbor::with(settings).await;
    let slow = options(harbor.url(), "slow")
        .inbox_bytes_max(128 << 10)
        .acceptance_deadline(Duration::from_millis(200));
    let slow = connected(slow).await;
    let fast = client(&harbor, "fast").await;
    for number in 0..MESSAGES {
        assert_eq!(fast.send(large(number)).await.unwrap().recipients, 1);
    }
    // 32 MB are more than the sockets' buffers hold, so they pile up in Harbor.
    eventually("Harbor holds them", || {
        harbor.metric("harbor_outbox_bytes") > 1e6
    })
    .await;
    let error = slow.send(numbered(1).to("fast")).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::InboxFull);
    for number in 0..MESSAGES {
        let message = next(&slow).await;
        assert!(message.payload.get().starts_with(&format!("\"{number:06}")));
    }
    assert_eq!(
        slow.send(numbered(2).to("fast")).await.unwrap().recipients,
        1
    );
    let State::Connected(session) = slow.state() else {
        panic!("{:?}", slow.state());
    };
    assert_eq!(session.generation, 1, "it was one connection all along");
}
