//! A TCP proxy that can do to a connection what networks do.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};

/// What the proxy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Passes everything on.
    Pass,
    /// Ends connections, old and new.
    Cut,
    /// Ends connections towards the client; Harbor does not learn of it.
    CutOneSide,
    /// Holds connections and passes nothing on.
    Freeze,
    /// Ends every connection so long after it was made.
    KillAfter(Duration),
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    mode: Arc<watch::Sender<Mode>>,
    target: Arc<Mutex<SocketAddr>>,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    pub async fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            addr: listener.local_addr().unwrap(),
            mode: Arc::new(watch::Sender::new(Mode::Pass)),
            target: Arc::new(Mutex::new(target)),
            connections: Arc::default(),
        };
        let (mode, target) = (proxy.mode.clone(), proxy.target.clone());
        let connections = proxy.connections.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let target = *target.lock().unwrap();
                tokio::spawn(carry(socket, target, mode.subscribe()));
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        format!("ws://{}/ws", self.addr)
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Where new connections go.
    pub fn aim(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn carry(mut client: TcpStream, target: SocketAddr, mut mode: watch::Receiver<Mode>) {
    if matches!(*mode.borrow(), Mode::Cut | Mode::CutOneSide) {
        return;
    }
    let Ok(mut harbor) = TcpStream::connect(target).await else {
        return;
    };
    loop {
        let now = *mode.borrow_and_update();
        let until = async {
            match now {
                Mode::Cut | Mode::CutOneSide => {}
                Mode::KillAfter(time) => sleep(time).await,
                Mode::Pass | Mode::Freeze => pending().await,
            }
        };
        let pass = async {
            match now {
                Mode::Pass | Mode::KillAfter(_) => {
                    let _ = copy_bidirectional(&mut client, &mut harbor).await;
                }
                Mode::Cut | Mode::CutOneSide | Mode::Freeze => pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = mode.changed() => if changed.is_err() { return },
            () = until => break,
            () = pass => return,
        }
    }
    if *mode.borrow() == Mode::CutOneSide {
        drop(client);
        // Harbor's side stays open until the test ends.
        while mode.changed().await.is_ok() {}
        drop(harbor);
    }
}
