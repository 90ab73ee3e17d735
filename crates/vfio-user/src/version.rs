// SPDX-License-Identifier: MIT OR Apache-2.0
//! VERSION: two numbers, and capabilities as a JSON object that ends with a NUL.

use crate::bytes::{Fields, Put};
use crate::error::WireError;
use crate::{DATA_MAX, FDS_MAX};
use serde_json::{Map, Value, json};

/// Major version that is spoken.
pub const MAJOR: u16 = 0;
/// Minor version that is spoken.
pub const MINOR: u16 = 1;
/// Longest JSON that is read.
const JSON_MAX: usize = 4096;

/// What an end can take. What it does not say has the protocol's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// File descriptors in a message.
    pub max_msg_fds: usize,
    /// Bytes of a region or DMA access.
    pub max_data_xfer_size: u64,
    /// Mappings.
    pub max_dma_maps: u64,
    /// Page sizes, a bit each.
    pub pgsizes: u64,
    /// It takes REGION_WRITE_MULTI.
    pub write_multiple: bool,
    /// It could use a second socket for the server's commands.
    pub twin_socket: bool,
}

impl Default for Capabilities {
    /// What an end has that says nothing.
    fn default() -> Capabilities {
        Capabilities {
            max_msg_fds: 1,
            max_data_xfer_size: DATA_MAX as u64,
            max_dma_maps: 65_535,
            pgsizes: 4_096,
            write_multiple: false,
            twin_socket: false,
        }
    }
}

impl Capabilities {
    /// Both ends of this project.
    pub fn ours() -> Capabilities {
        Capabilities {
            max_msg_fds: FDS_MAX,
            write_multiple: true,
            ..Capabilities::default()
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major.
    pub major: u16,
    /// Minor.
    pub minor: u16,
    /// Capabilities.
    pub capabilities: Capabilities,
}

impl Version {
    /// What both ends of this project say.
    pub fn ours() -> Version {
        Version {
            major: MAJOR,
            minor: MINOR,
            capabilities: Capabilities::ours(),
        }
    }

    /// The version to speak with an end that asked for `self`.
    ///
    /// # Errors
    /// [`WireError::Version`] when there is none.
    pub fn answer(&self) -> Result<Version, WireError> {
        if self.major != MAJOR {
            return Err(WireError::Version {
                major: self.major,
                minor: self.minor,
            });
        }
        Ok(Version {
            minor: self.minor.min(MINOR),
            ..Version::ours()
        })
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let c = &self.capabilities;
        let mut all = json!({
            "max_msg_fds": c.max_msg_fds,
            "max_data_xfer_size": c.max_data_xfer_size,
            "max_dma_maps": c.max_dma_maps,
            "pgsizes": c.pgsizes,
            "write_multiple": c.write_multiple,
        });
        if c.twin_socket {
            all["twin_socket"] = json!({ "supported": true });
        }
        out.u16(self.major);
        out.u16(self.minor);
        out.extend_from_slice(json!({ "capabilities": all }).to_string().as_bytes());
        out.push(0);
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn parse(body: &[u8]) -> Result<Version, WireError> {
        let mut f = Fields::new("VERSION", body);
        let (major, minor) = (f.u16()?, f.u16()?);
        let text = f.rest();
        let mut capabilities = Capabilities::default();
        if !text.is_empty() {
            if text.len() > JSON_MAX {
                return Err(WireError::Json("it is too long".into()));
            }
            let Some((0, text)) = text.split_last() else {
                return Err(WireError::Json("it does not end with a NUL".into()));
            };
            let value: Value =
                serde_json::from_slice(text).map_err(|e| WireError::Json(e.to_string()))?;
            let Value::Object(object) = value else {
                return Err(WireError::Json("it is no object".into()));
            };
            match object.get("capabilities") {
                Some(Value::Object(all)) => capabilities.take(all)?,
                None => {}
                Some(_) => return Err(WireError::Json("capabilities is no object".into())),
            }
        }
        Ok(Version {
            major,
            minor,
            capabilities,
        })
    }
}

impl Capabilities {
    fn take(&mut self, all: &Map<String, Value>) -> Result<(), WireError> {
        let number = |name: &str, default: u64| match all.get(name) {
            None => Ok(default),
            Some(v) => v
                .as_u64()
                .ok_or_else(|| WireError::Json(format!("{name} is no number"))),
        };
        let fds = number("max_msg_fds", self.max_msg_fds as u64)?;
        self.max_msg_fds = usize::try_from(fds).unwrap_or(usize::MAX);
        self.max_data_xfer_size = number("max_data_xfer_size", self.max_data_xfer_size)?;
        self.max_dma_maps = number("max_dma_maps", self.max_dma_maps)?;
        self.pgsizes = number("pgsizes", self.pgsizes)?;
        self.write_multiple = match all.get("write_multiple") {
            None => false,
            Some(Value::Bool(b)) => *b,
            Some(_) => return Err(WireError::Json("write_multiple is no bool".into())),
        };
        let twin = all.get("twin_socket").and_then(|t| t.get("supported"));
        self.twin_socket = twin.and_then(Value::as_bool).unwrap_or(false);
        Ok(())
    }
}
