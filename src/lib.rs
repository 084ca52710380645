//! The Synapse message protocol.
