//! Idle connections: what a registered client that says nothing costs in resident memory.

use std::time::Duration;

use crate::Result;
use crate::clients;
use crate::dialect::Variant;
use crate::process::Broker;

/// What one read of a client may bring while it registers.
const READ_BYTES: usize = 4 * 1024;
/// How long the broker is left alone before its memory is read.
const SETTLE: Duration = Duration::from_secs(1);

/// Resident bytes for each of `connections` idle connections.
pub(crate) async fn run(broker: &Broker, variant: Variant, connections: u32) -> Result<f64> {
    // The first connection pays for what is set up once.
    let _first = clients::connect(broker, variant, connections, None, READ_BYTES).await?;
    tokio::time::sleep(SETTLE).await;
    let before = broker.rss()?;
    let mut open = clients::connect_all(broker, variant, 0..connections, None, READ_BYTES).await?;
    for connection in &mut open {
        connection.reader.shrink();
    }
    tokio::time::sleep(SETTLE).await;
    let after = broker.rss()?;
    Ok(after.saturating_sub(before) as f64 / f64::from(connections))
}
