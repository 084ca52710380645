//! Sends back every message, over the same [`Socket`] as the broker's: what `scripts/autobahn` tests.
//!
//! Prints `listening on ws://127.0.0.1:PORT` and serves until it is ended. Its frame limit is 32 MiB, as the suite
//! sends messages of 16 MiB; everything else about the socket is as in the broker.

use std::{future::poll_fn, io};

use harbor::connection::{
    socket::{Incoming, Socket},
    stream::Stream,
};
use synapse::refusal::Close;
use tokio::net::{TcpListener, TcpStream};

const FRAME_BYTES_MAX: usize = 32 * 1024 * 1024;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the script reads the address")]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on ws://{}", listener.local_addr()?);
    loop {
        let (tcp, _) = listener.accept().await?;
        tokio::spawn(serve(tcp));
    }
}

async fn serve(tcp: TcpStream) {
    // Only the opening handshake; the bare connection goes on to Harbor's own socket.
    let Ok(upgraded) = tokio_tungstenite::accept_async(tcp).await else {
        return;
    };
    let mut socket = Socket::new(Stream::from(upgraded.into_inner()), &[], FRAME_BYTES_MAX).await;
    let close = loop {
        if let Err(close) = echo(&mut socket).await {
            break close;
        }
    };
    socket.close(close).await;
}

async fn echo(socket: &mut Socket) -> Result<(), Close> {
    match poll_fn(|cx| socket.poll_read(cx)).await? {
        Incoming::Text(text) => socket.feed_text(text)?,
        Incoming::Binary(bytes) => socket.feed_binary(bytes)?,
        Incoming::Alive => {}
    }
    poll_fn(|cx| socket.poll_flush(cx)).await
}
