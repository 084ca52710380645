//! A running Harbor: bound, serving, and stopped by [`Harbor::drain`].
//!
//! Around a frame's way: it starts the listener and ends every task.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{Config, drain, listen, node::Node, upkeep};

/// A running node.
#[derive(Debug)]
pub struct Harbor {
    node: Arc<Node>,
    addr: SocketAddr,
    stop_listening: oneshot::Sender<()>,
    listener: JoinHandle<()>,
}

/// The address could not be listened on.
#[derive(Debug)]
pub struct StartError {
    listen: SocketAddr,
    source: io::Error,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.listen, self.source)
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl Harbor {
    /// Binds and serves.
    ///
    /// # Errors
    ///
    /// When the address is taken, or not this machine's.
    pub async fn start(config: Config) -> Result<Harbor, StartError> {
        let listen = config.listen;
        let failed = |source| StartError { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let node = Arc::new(Node::new(config));
        tokio::spawn(upkeep::keep_up(Arc::clone(&node)));
        let (stop_listening, stopped) = oneshot::channel::<()>();
        let stop = async {
            let _ = stopped.await;
        };
        let listening = listen::listen(Arc::clone(&node), listener, stop);
        let listener = tokio::spawn(listening);
        Ok(Harbor {
            node,
            addr,
            stop_listening,
            listener,
        })
    }

    /// The address it listens on, with the true port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where agents connect.
    pub fn url(&self) -> String {
        let scheme = match self.node.config.tls {
            Some(_) => "wss",
            None => "ws",
        };
        format!("{scheme}://{}/ws", self.addr)
    }

    /// The text of `GET /metrics`.
    pub fn metrics(&self) -> String {
        self.node.metrics.text()
    }

    /// Stops: no new agents, the present ones are told and closed with 1001 after what waits for
    /// them is written. Whether all was done within the configured time; what was not, is cut.
    pub async fn drain(self) -> bool {
        let is_done = drain::drain(&self.node).await;
        let _ = self.stop_listening.send(());
        let _ = self.listener.await;
        is_done
    }
}
