//! The bytes under a WebSocket: TCP, or TLS over it.
//!
//! Below both ends of a frame's way; nothing above asks which of the two it is.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::server::TlsStream;

use crate::limits::{CLOSE_GRACE, READ_BUFFER_BYTES};

/// A connection that bytes go through in both directions.
#[derive(Debug)]
pub enum Stream {
    /// TCP alone.
    Plain(TcpStream),
    /// TLS. Boxed, so that a plain connection does not carry its room.
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Self {
        Stream::Plain(tcp)
    }
}

impl From<TlsStream<TcpStream>> for Stream {
    fn from(tls: TlsStream<TcpStream>) -> Self {
        Stream::Tls(Box::new(tls))
    }
}

impl Stream {
    /// Whether there may be something to read, once a read has found nothing: TLS holds no
    /// plaintext back then, so both depend on TCP alone.
    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(tcp) => tcp.poll_read_ready(cx),
            Stream::Tls(tls) => tls.get_ref().0.poll_read_ready(cx),
        }
    }

    /// Whether the operating system has all that was written. TLS takes more than it passes on.
    pub(super) fn is_passed_on(&self) -> bool {
        match self {
            Stream::Plain(_) => true,
            Stream::Tls(tls) => !tls.get_ref().1.wants_write(),
        }
    }
}

/// Ends a connection so that its peer can read what was written last: shuts it down, then reads
/// until the peer has ended it too, each within `CLOSE_GRACE`. Unread bytes would make the kernel
/// reset the connection and take along what was written.
pub(crate) async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let _ = timeout(CLOSE_GRACE, stream.shutdown()).await;
    let _ = timeout(CLOSE_GRACE, async {
        let mut scrap = vec![0; READ_BUFFER_BYTES];
        while stream.read(&mut scrap).await.is_ok_and(|length| length > 0) {}
    })
    .await;
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, buffer),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buffer),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, buffers),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, buffers),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
