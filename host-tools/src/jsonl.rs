// SPDX-License-Identifier: MIT OR Apache-2.0
//! The strict loop of the JSON-lines commands: one object a line in, one a line
//! out, in order. `id` is echoed as it came. A line that is no use gives an error
//! object, and the stream goes on.
//!
//! Strict means: a key that a command does not know, a key that comes twice, a
//! number of the wrong kind and a missing `id` are errors. Typos must not pass.

use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_path_to_error::Segment;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use tsonic_regs::Status;

/// Longest line in bytes; a longer one is an error and is skipped.
pub const LINE_MAX: usize = 16 << 20;

/// Why a line has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, as a code with a remedy.
    pub status: Status,
    /// What exactly; stands before the remedy.
    pub detail: Option<String>,
}

impl Failure {
    /// [`Status::BadInput`], and what is bad about it.
    pub fn bad_input(detail: impl fmt::Display) -> Failure {
        Failure {
            status: Status::BadInput,
            detail: Some(detail.to_string()),
        }
    }

    /// [`Status::NotSupported`]: what should not happen, and what it is.
    pub fn unable(what: impl fmt::Display) -> Failure {
        Failure {
            status: Status::NotSupported,
            detail: Some(what.to_string()),
        }
    }

    fn to_value(&self) -> Value {
        let remedy = match &self.detail {
            Some(detail) => format!("{detail}; {}", self.status.remedy()),
            None => self.status.remedy().to_owned(),
        };
        json!({ "code": self.status.code(), "name": self.status.name(), "remedy": remedy })
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure {
            status,
            detail: None,
        }
    }
}

/// The keys of a line without `id`.
#[derive(Clone, Debug, PartialEq)]
pub struct Request(Map<String, Value>);

impl Request {
    /// Takes a key out, so that [`Request::parse`] does not see it.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    /// The keys as a structure. Give it `deny_unknown_fields`.
    ///
    /// # Errors
    /// [`Status::BadInput`] with serde's words, and the key that they are about.
    pub fn parse<T: DeserializeOwned>(self) -> Result<T, Failure> {
        let parsed = serde_path_to_error::deserialize(Value::Object(self.0));
        parsed.map_err(|e| {
            let words = spelled_out(&e.inner().to_string());
            match e.path().iter().next() {
                None | Some(Segment::Unknown) => Failure::bad_input(words),
                Some(_) => Failure::bad_input(format!("`{}`: {words}", e.path())),
            }
        })
    }
}

/// Serde's words, with the ranges of integers instead of Rust's names for them.
fn spelled_out(words: &str) -> String {
    let Some((said, kind)) = words.rsplit_once("expected ") else {
        return words.to_owned();
    };
    let most = match kind {
        "u8" => u64::from(u8::MAX),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "u64" => u64::MAX,
        _ => return words.to_owned(),
    };
    format!("{said}expected an integer from 0 to {most}")
}

/// A structure as the keys of an answer.
///
/// # Errors
/// [`Status::NotSupported`] when it is not an object: a bug of the command.
pub fn answer(keys: &impl Serialize) -> Result<Map<String, Value>, Failure> {
    match serde_json::to_value(keys) {
        Ok(Value::Object(map)) => Ok(map),
        other => Err(Failure {
            status: Status::NotSupported,
            detail: Some(format!("the answer is not an object: {other:?}")),
        }),
    }
}

/// Lines of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines answered.
    pub answered: u64,
    /// Lines that gave an error object.
    pub failed: u64,
}

/// Reads lines up to the end of `input` and writes one answer each, flushed line
/// by line.
///
/// # Errors
/// Those of `input` and `output` only.
pub fn run(
    mut input: impl BufRead,
    mut output: impl Write,
    mut command: impl FnMut(Request) -> Result<Map<String, Value>, Failure>,
) -> io::Result<Summary> {
    let mut summary = Summary::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input)
            .take(LINE_MAX as u64 + 1)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(summary);
        }
        let reply = if read > LINE_MAX && line.last() != Some(&b'\n') {
            skip_line(&mut input)?;
            Err((
                Value::Null,
                Failure::bad_input(format!("the line exceeds {LINE_MAX} bytes")),
            ))
        } else {
            reply(&line, &mut command)
        };
        let mut object = Map::new();
        match reply {
            Ok((id, keys)) => {
                summary.answered += 1;
                object.insert("id".into(), id);
                object.extend(keys);
            }
            Err((id, failure)) => {
                summary.failed += 1;
                object.insert("id".into(), id);
                object.insert("error".into(), failure.to_value());
            }
        }
        serde_json::to_writer(&mut output, &object)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
}

fn reply(
    line: &[u8],
    command: &mut impl FnMut(Request) -> Result<Map<String, Value>, Failure>,
) -> Result<(Value, Map<String, Value>), (Value, Failure)> {
    let Line(mut keys) = serde_json::from_slice(line)
        .map_err(|e| (Value::Null, Failure::bad_input(format!("no object: {e}"))))?;
    let id = keys
        .remove("id")
        .ok_or((Value::Null, Failure::bad_input("missing field `id`")))?;
    match command(Request(keys)) {
        Ok(keys) => Ok((id, keys)),
        Err(failure) => Err((id, failure)),
    }
}

/// Skips the rest of a line without storing it.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|b| *b == b'\n') {
            Some(at) => {
                input.consume(at + 1);
                return Ok(());
            }
            None => {
                let all = buffer.len();
                input.consume(all);
            }
        }
    }
}

/// An object of JSON in which no key comes twice.
struct Line(Map<String, Value>);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Line, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Line;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Line, A::Error> {
                let mut map = Map::new();
                while let Some((key, value)) = access.next_entry::<String, Value>()? {
                    if map.contains_key(&key) {
                        return Err(A::Error::custom(format!("field `{key}` comes twice")));
                    }
                    map.insert(key, value);
                }
                Ok(Line(map))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// `null` or absent means that there is none.
///
/// With `#[serde(deserialize_with = "nullable")]` and no default, absence is an
/// error and `null` is `None`.
///
/// # Errors
/// Those of the value.
pub fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// Bytes in hex.
///
/// # Errors
/// What is not hex in them.
pub fn hex_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    hex::decode(&text).map_err(|e| D::Error::custom(format!("bytes in hex are wanted: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        n: u64,
        #[serde(deserialize_with = "nullable")]
        m: Option<u64>,
    }

    fn double(request: Request) -> Result<Map<String, Value>, Failure> {
        let Keys { n, m } = request.parse()?;
        if n == 0 {
            return Err(Status::MssZero.into());
        }
        answer(&json!({ "twice": n.wrapping_mul(2), "m": m }))
    }

    fn lines(input: &[u8]) -> Vec<Value> {
        let mut out = Vec::new();
        run(input, &mut out, double).unwrap();
        String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    #[test]
    fn answers_in_order_and_goes_on_after_errors() {
        let input = b"{\"id\":1,\"n\":4,\"m\":null}\n\
            {\"id\":\"a\",\"n\":0,\"m\":1}\n\
            nonsense\n\
            \n\
            \xff\xfe\n\
            [1]\n\
            {\"id\":{\"x\":[2]},\"n\":18446744073709551615,\"m\":7}";
        let got = lines(input);
        assert_eq!(got[0], json!({ "id": 1, "twice": 8, "m": null }));
        assert_eq!(
            got[1],
            json!({ "id": "a", "error": {
                "code": 1, "name": "MSS_ZERO", "remedy": Status::MssZero.remedy() } })
        );
        for bad in &got[2..6] {
            assert_eq!(bad["id"], Value::Null);
            assert_eq!(bad["error"]["code"], 32);
            assert_eq!(bad["error"]["name"], "BAD_INPUT");
        }
        assert_eq!(
            got[6],
            json!({ "id": { "x": [2] }, "twice": u64::MAX - 1, "m": 7 })
        );
        assert_eq!(got.len(), 7);
    }

    #[test]
    fn typos_and_wrong_kinds_do_not_pass() {
        for (line, word) in [
            (r#"{"id":1,"n":1,"m":1,"k":1}"#, "unknown field `k`"),
            (r#"{"id":1,"n":1}"#, "missing field `m`"),
            (r#"{"id":1,"n":[],"m":1}"#, "`n`: invalid type"),
            (
                r#"{"id":1,"n":[],"m":1}"#,
                "an integer from 0 to 18446744073709551615;",
            ),
            (r#"{"id":1,"n":1,"m":{}}"#, "`m`: invalid type"),
            (r#"{"id":1,"n":-1,"m":1}"#, "-1"),
            (r#"{"id":1,"n":1.0,"m":1}"#, "floating"),
            (r#"{"id":1,"n":18446744073709551616,"m":1}"#, "floating"),
            (r#"{"id":1,"n":"1","m":1}"#, "string"),
            (r#"{"id":1,"n":1,"n":2,"m":1}"#, "twice"),
            (r#"{"n":1,"m":1}"#, "missing field `id`"),
        ] {
            let got = lines(line.as_bytes());
            assert_eq!(got[0]["error"]["name"], "BAD_INPUT", "{line}");
            let remedy = got[0]["error"]["remedy"].as_str().unwrap();
            assert!(remedy.contains(word), "{line}: {remedy}");
        }
    }

    #[test]
    fn an_endless_line_is_skipped() {
        let mut input = vec![b'x'; LINE_MAX + 100];
        input.extend_from_slice(b"\n{\"id\":2,\"n\":1,\"m\":null}\n");
        let got = lines(&input);
        assert_eq!(got[0]["error"]["name"], "BAD_INPUT");
        assert_eq!(got[1]["twice"], 2);
    }
}
