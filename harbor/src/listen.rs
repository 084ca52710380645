//! Accepts TCP connections and serves HTTP/1.1 on them.
//!
//! The start of a frame's way. A slow or oversized request head ends its own connection only
//! (status 431, or the connect deadline).

pub(crate) mod upgrade;

use std::sync::Arc;

use axum::Router;
use hyper::service::Service;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};

use crate::{clock, gateway, limits, node::Node};
use upgrade::AcceptedAt;

/// Accepts until `stop` is done.
pub(crate) async fn listen(node: Arc<Node>, listener: TcpListener, stop: impl Future<Output = ()>) {
    let router = gateway::routes(Arc::clone(&node));
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return,
        };
        match accepted {
            Ok((tcp, _)) => {
                let task = serve_http(Arc::clone(&node), tcp, router.clone());
                node.tasks.spawn(task);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection's requests, until it is upgraded or closed.
async fn serve_http(node: Arc<Node>, tcp: TcpStream, router: Router) {
    // Without it, small frames would wait for acknowledgements of earlier ones.
    let _ = tcp.set_nodelay(true);
    let accepted_at = AcceptedAt(clock::now());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(accepted_at);
        TowerToHyperService::new(router.clone()).call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(node.config.connect_deadline)
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        // The buffer may grow past its bound by one read; this holds exactly.
        .max_header_size(limits::HTTP_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(tcp), service)
        .with_upgrades();
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = node.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "HTTP connection ended");
    }
}
