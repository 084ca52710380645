//! Accepts TCP connections and serves HTTP/1.1 on them.
//!
//! The start of a frame's way. Each connection takes a place before it is accepted. A request head
//! that is oversized ends its own connection only (status 431), and so does one that is slow, or a
//! peer that does not read its answers (the connect deadline).

pub(crate) mod admission;
pub(crate) mod complaint;
mod origin;
pub(crate) mod upgrade;

use std::{convert::Infallible, io, net::IpAddr, sync::Arc, time::Duration};

use axum::{Router, response::Response};
use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{CONNECTION, HeaderValue},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::OwnedSemaphorePermit,
    time::timeout,
};

use crate::{
    clock::{self, Instant},
    connection::stream::Stream,
    gateway, limits,
    node::Node,
    tls::identity::Identity,
};
use complaint::Complaint;
use upgrade::Arrival;

/// Accepts until `stop` is done.
pub(crate) async fn listen(node: Arc<Node>, listener: TcpListener, stop: impl Future<Output = ()>) {
    let router = gateway::routes(Arc::clone(&node));
    tokio::pin!(stop);
    let (mut full, mut failed) = (Complaint::default(), Complaint::default());
    loop {
        let accepted = tokio::select! {
            accepted = accept(&node, &listener, &mut full) => accepted,
            () = &mut stop => return,
        };
        match accepted {
            Ok(accepted) => {
                let task = serve_http(Arc::clone(&node), accepted, router.clone());
                if node.is_draining() {
                    // It gets its 503, and nobody waits for those that still come.
                    tokio::spawn(task);
                } else {
                    node.tasks.spawn(task);
                }
            }
            Err(error) => {
                node.metrics.accepts_failed.inc();
                if let Some(times) = failed.again() {
                    tracing::warn!(%error, times, "cannot accept a connection");
                }
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The next connection. Without a place, connections wait in the kernel's backlog.
async fn accept(node: &Node, listener: &TcpListener, full: &mut Complaint) -> io::Result<Accepted> {
    let place = match Arc::clone(&node.places).try_acquire_owned() {
        Ok(place) => place,
        Err(_) => {
            node.metrics.accepts_paused.inc();
            if let Some(times) = full.again() {
                tracing::warn!(times, "every place is taken; new connections wait");
            }
            let place = Arc::clone(&node.places).acquire_owned().await;
            place.map_err(io::Error::other)?
        }
    };
    let (tcp, peer) = listener.accept().await?;
    let address = peer.ip();
    Ok(Accepted {
        tcp,
        address,
        place,
    })
}

/// A TCP connection, and the place it takes.
struct Accepted {
    tcp: TcpStream,
    address: IpAddr,
    place: OwnedSemaphorePermit,
}

/// Serves one connection's requests, until it is upgraded or closed.
async fn serve_http(node: Arc<Node>, accepted: Accepted, router: Router) {
    let Accepted {
        tcp,
        address,
        place,
    } = accepted;
    // Without it, small frames would wait for acknowledgements of earlier ones.
    let _ = tcp.set_nodelay(true);
    let accepted_at = clock::now();
    let deadline = accepted_at + node.config.connect_deadline;
    let Some((stream, identity)) = secure(&node, tcp, deadline).await else {
        return;
    };
    let visit = Arc::new(Visit::new(accepted_at, identity, address, place));
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(visit.next_request());
        respond(
            &node,
            TowerToHyperService::new(router.clone()).call(request),
        )
    });
    let connection = http1::Builder::new()
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        // The buffer may grow past its bound by one read; this holds exactly.
        .max_header_size(limits::HTTP_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => Ok(served),
        () = visit.is_overdue(node.config.connect_deadline) => Err(()),
        () = node.stopping.cancelled() => {
            if visit.has_asked() {
                // Idle, it ends now. A first request may be on its way and is still waited for.
                connection.as_mut().graceful_shutdown();
            }
            timeout(limits::DRAINING_REQUEST_GRACE, connection).await.map_err(drop)
        }
    };
    match served {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "HTTP connection ended"),
        Err(()) => tracing::debug!("HTTP connection cut: nothing came or was taken for too long"),
    }
}

/// Speaks TLS first, where it is set, with the same patience as for a first request.
async fn secure(node: &Node, tcp: TcpStream, deadline: Instant) -> Option<(Stream, Identity)> {
    let Some(tls) = &node.config.tls else {
        return Some((Stream::from(tcp), Identity::Unasked));
    };
    let draining = async {
        node.stopping.cancelled().await;
        tokio::time::sleep(limits::DRAINING_REQUEST_GRACE).await;
    };
    let failure = tokio::select! {
        accepted = tls.accept(tcp) => match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => error,
        },
        () = tokio::time::sleep_until(deadline) => io::ErrorKind::TimedOut.into(),
        () = draining => return None,
    };
    node.metrics.tls_handshakes_failed.inc();
    tracing::debug!(error = %failure, "no TLS came about");
    None
}

/// Answers one request. A draining node answers no other on the same connection.
async fn respond(
    node: &Node,
    response: impl Future<Output = Result<Response, Infallible>>,
) -> Result<Response, Infallible> {
    let mut response = response.await?;
    if node.is_draining() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

/// One connection's stay at the HTTP doors.
#[derive(Debug)]
struct Visit {
    accepted_at: Instant,
    identity: Identity,
    /// When the last request came, if any did.
    asked_at: Mutex<Option<Instant>>,
    address: IpAddr,
    place: Arc<OwnedSemaphorePermit>,
}

impl Visit {
    fn new(
        accepted_at: Instant,
        identity: Identity,
        address: IpAddr,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Visit {
            accepted_at,
            identity,
            asked_at: Mutex::new(None),
            address,
            place: Arc::new(place),
        }
    }

    /// Notes a request. The first one's deadline counts from the accept, so that it cannot be put
    /// off by a slow head; a later one's from its own arrival.
    fn next_request(&self) -> Arrival {
        let now = clock::now();
        let earlier = self.asked_at.lock().replace(now);
        Arrival {
            since: earlier.map_or(self.accepted_at, |_| now),
            address: self.address,
            place: Arc::clone(&self.place),
            identity: self.identity.clone(),
        }
    }

    fn has_asked(&self) -> bool {
        self.asked_at.lock().is_some()
    }

    /// Done once no request has come for as long as `patience`. A peer that does not read its
    /// answers ends so too: its further requests are not taken once the write buffer is full.
    async fn is_overdue(&self, patience: Duration) {
        loop {
            let end = self.asked_at.lock().unwrap_or(self.accepted_at) + patience;
            if end <= clock::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::Semaphore,
    };

    use super::*;
    use crate::config::Settings;

    #[tokio::test]
    async fn without_a_place_a_connection_waits_until_another_ends() {
        let mut node = Node::new(Settings::default().into_config().unwrap());
        node.places = Arc::new(Semaphore::new(2));
        let node = Arc::new(node);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let task = tokio::spawn(listen(Arc::clone(&node), listener, std::future::pending()));
        let first = TcpStream::connect(addr).await.unwrap();
        let _second = TcpStream::connect(addr).await.unwrap();
        let mut third = TcpStream::connect(addr).await.unwrap();
        let request = b"GET /healthz HTTP/1.1\r\nHost: harbor\r\nConnection: close\r\n\r\n";
        third.write_all(request).await.unwrap();
        while node.metrics.accepts_paused.get() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(node.tasks.len(), 2);
        drop(first);
        let mut answer = String::new();
        third.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        task.abort();
    }
}
