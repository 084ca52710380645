//! How many WebSockets there may be: in all, from one address, and not registered.
//!
//! Asked at the door of a frame's way, before an upgrade. A place is given back when its guard is
//! dropped, however the connection ended.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use dashmap::{DashMap, mapref::entry::Entry};
use prometheus_client::metrics::gauge::Gauge;
use synapse::{Code, Refusal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    config::Config,
    limits::RETRY_AFTER_MS,
    metrics::{Limit, Metrics},
};

/// The places of one node.
#[derive(Debug)]
pub(crate) struct Admission {
    /// A permit a WebSocket.
    connections: Arc<Semaphore>,
    /// A permit a WebSocket that has not registered.
    unregistered: Arc<Semaphore>,
    addresses: Arc<DashMap<IpAddr, usize>>,
    metrics: Arc<Metrics>,
}

/// What a WebSocket holds as long as it is there.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// What it holds until it has registered.
    pub(crate) unregistered: Unregistered,
    /// What it holds until it ends.
    pub(crate) place: Place,
}

/// A place among all WebSockets, and among those of its address.
#[derive(Debug)]
pub(crate) struct Place {
    _connection: OwnedSemaphorePermit,
    address: IpAddr,
    addresses: Arc<DashMap<IpAddr, usize>>,
}

/// A place among the WebSockets that have not registered.
#[derive(Debug)]
pub(crate) struct Unregistered {
    _permit: OwnedSemaphorePermit,
    gauge: Gauge,
}

impl Admission {
    pub(crate) fn new(config: &Config, metrics: &Arc<Metrics>) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Admission {
            connections: places(config.connections_max),
            unregistered: places(config.unregistered_max),
            addresses: Arc::default(),
            metrics: Arc::clone(metrics),
        }
    }

    /// Takes the places of one more WebSocket from this address.
    ///
    /// # Errors
    ///
    /// [`Code::RateLimited`] when its address has as many as it may, [`Code::Overloaded`] when the
    /// node does.
    pub(crate) fn admit(&self, config: &Config, address: IpAddr) -> Result<Admitted, Refusal> {
        let connection = Arc::clone(&self.connections).try_acquire_owned();
        let connection = connection.map_err(|_| {
            let max = config.connections_max;
            self.full(Code::Overloaded, Limit::Connections, max)
        })?;
        let place = self.enter(connection, network(address), config);
        let place = place.ok_or_else(|| {
            let max = config.connections_per_address_max;
            self.full(Code::RateLimited, Limit::ConnectionsPerAddress, max)
        })?;
        let permit = Arc::clone(&self.unregistered).try_acquire_owned();
        let permit = permit.map_err(|_| {
            let max = config.unregistered_max;
            self.full(Code::Overloaded, Limit::Unregistered, max)
        })?;
        self.metrics.unregistered.inc();
        let unregistered = Unregistered {
            _permit: permit,
            gauge: self.metrics.unregistered.clone(),
        };
        Ok(Admitted {
            unregistered,
            place,
        })
    }

    /// Counts and tells that a limit holds.
    fn full(&self, code: Code, limit: Limit, max: usize) -> Refusal {
        self.metrics.limited(limit);
        let reason = format!("{} is {max}, and that many are there", limit.label());
        Refusal::new(code, reason).retry_after_ms(RETRY_AFTER_MS)
    }

    fn enter(
        &self,
        connection: OwnedSemaphorePermit,
        address: IpAddr,
        config: &Config,
    ) -> Option<Place> {
        let mut count = self.addresses.entry(address).or_insert(0);
        if *count >= config.connections_per_address_max {
            return None;
        }
        *count += 1;
        Some(Place {
            _connection: connection,
            address,
            addresses: Arc::clone(&self.addresses),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.addresses.entry(self.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl Drop for Unregistered {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// What is counted as one address: an IPv6 host has a whole /64 to itself (RFC 6177), and an IPv4
/// one may come as IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !0 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn config(per_address: usize) -> Config {
        let settings = Settings {
            connections_max: Some(3),
            connections_per_address_max: Some(per_address),
            unregistered_max: Some(3),
            ..Settings::default()
        };
        settings.into_config().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_network_is_one_address() {
        for (a, b, is_one) in [
            ("2001:db8::1", "2001:db8::ffff:0:0:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            assert_eq!(
                network(address(a)) == network(address(b)),
                is_one,
                "{a} {b}"
            );
        }
    }

    #[test]
    fn every_place_is_given_back_and_nothing_is_kept_of_an_address() {
        let (config, metrics) = (config(2), Arc::new(Metrics::new()));
        let admission = Admission::new(&config, &metrics);
        for _ in 0..5 {
            let (a, b) = (address("192.0.2.1"), address("192.0.2.2"));
            let first = admission.admit(&config, a).unwrap();
            let second = admission.admit(&config, a).unwrap();
            let refusal = admission.admit(&config, a).unwrap_err();
            assert_eq!(refusal.code, Code::RateLimited);
            let third = admission.admit(&config, b).unwrap();
            let refusal = admission.admit(&config, b).unwrap_err();
            assert_eq!(refusal.code, Code::Overloaded);
            assert_eq!(metrics.unregistered.get(), 3);
            drop((first, second, third));
            assert_eq!(metrics.unregistered.get(), 0);
            assert!(admission.addresses.is_empty());
        }
    }
}
