// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head of an HTTP/1.1 request, as far as a file server needs it.

use percent_encoding::percent_decode_str;

/// Longest head.
pub const HEAD_MAX: usize = 8 * 1024;
/// Header lines.
const HEADERS_MAX: usize = 64;

/// A status line's code and phrase.
pub type Status = (u16, &'static str);

/// What is wrong with the request.
pub const BAD_REQUEST: Status = (400, "Bad Request");
/// Another method.
pub const METHOD_NOT_ALLOWED: Status = (405, "Method Not Allowed");
/// Too many or too long header lines.
pub const HEAD_TOO_LARGE: Status = (431, "Request Header Fields Too Large");
/// A version that is not ours.
pub const VERSION_NOT_SUPPORTED: Status = (505, "HTTP Version Not Supported");

/// A range of bytes that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// From here to the end, or to that byte.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

impl Range {
    /// First byte, and how many, in a file of `len` bytes; `None` when none of it is there.
    pub fn within(self, len: u64) -> Option<(u64, u64)> {
        let (first, end) = match self {
            Range::From(first, last) => (first, last.map_or(len, |l| l.saturating_add(1).min(len))),
            Range::Last(n) => (len.saturating_sub(n), len),
        };
        (first < end).then(|| (first, end - first))
    }
}

/// A request that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Path, decoded, without query.
    pub path: String,
    /// Only the head is wanted.
    pub head_only: bool,
    /// The connection stays open behind it.
    pub keep_alive: bool,
    /// Part of the file.
    pub range: Option<Range>,
}

/// What a buffer begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A part of a head.
    Partial,
    /// A request, and the bytes of its head.
    Request(Request, usize),
    /// What cannot be answered; the connection ends with it.
    Wrong(Status),
}

/// Reads a head.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let len = match head.parse(bytes) {
        Ok(httparse::Status::Complete(n)) if n <= HEAD_MAX => n,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Parsed::Partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Parsed::Wrong(HEAD_TOO_LARGE),
        Err(httparse::Error::Version) => return Parsed::Wrong(VERSION_NOT_SUPPORTED),
        Err(_) => return Parsed::Wrong(BAD_REQUEST),
    };
    match request(&head) {
        Ok(request) => Parsed::Request(request, len),
        Err(status) => Parsed::Wrong(status),
    }
}

fn request(head: &httparse::Request<'_, '_>) -> Result<Request, Status> {
    let one = |name: &str| {
        let mut found = head
            .headers
            .iter()
            .filter(|h| h.name.eq_ignore_ascii_case(name));
        let first = found.next().map(|h| h.value);
        match found.next() {
            Some(_) => Err(BAD_REQUEST),
            None => Ok(first),
        }
    };
    let newer = head.version == Some(1);
    // RFC 9112, 3.2: exactly one Host in HTTP/1.1.
    if one("host")?.is_none() && newer {
        return Err(BAD_REQUEST);
    }
    let head_only = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(METHOD_NOT_ALLOWED),
    };
    // A body would have to be read, and nothing here takes one.
    let no_body =
        |v: &[u8]| v.trim_ascii().iter().all(|b| *b == b'0') && !v.trim_ascii().is_empty();
    if one("transfer-encoding")?.is_some() || !one("content-length")?.is_none_or(no_body) {
        return Err(BAD_REQUEST);
    }
    let words: Vec<String> = head
        .headers
        .iter()
        .filter(|h| h.name.eq_ignore_ascii_case("connection"))
        .flat_map(|h| h.value.split(|b| *b == b','))
        .map(|w| String::from_utf8_lossy(w).trim().to_ascii_lowercase())
        .collect();
    let says = |word: &str| words.iter().any(|w| w == word);
    let keep_alive = !says("close") && (newer || says("keep-alive"));
    // RFC 9110, 14.2: a Range that is not understood is left alone.
    let range = one("range")?
        .and_then(|v| std::str::from_utf8(v).ok())
        .and_then(range);
    Ok(Request {
        path: path(head.path.unwrap_or_default())?,
        head_only,
        keep_alive,
        range,
    })
}

/// The path of a target in origin or absolute form (RFC 9112, 3.2).
fn path(target: &str) -> Result<String, Status> {
    let origin = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    let path = origin.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(BAD_REQUEST);
    }
    let decoded = percent_decode_str(path).decode_utf8();
    decoded.map(Into::into).map_err(|_| BAD_REQUEST)
}

/// One range of bytes; `None` for several, or another unit.
fn range(value: &str) -> Option<Range> {
    let number = |t: &str| {
        let digits = !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| t.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = value.trim().strip_prefix("bytes=")?.split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", n) => number(n).map(Range::Last),
        (first, "") => number(first).map(|f| Range::From(f, None)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Range::From(first, Some(last)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn get(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Parsed::Request(r, n) => {
                assert_eq!(n, text.len());
                r
            }
            other => panic!("{other:?}"),
        }
    }

    fn wrong(text: &str) -> Option<Status> {
        match parse(text.as_bytes()) {
            Parsed::Wrong(status) => Some(status),
            _ => None,
        }
    }

    #[test]
    fn requests_are_read() {
        let r = get("GET /a%20b/c?x=1 HTTP/1.1\r\nHost: h\r\nRange: bytes=5-9\r\n\r\n");
        assert_eq!(r.path, "/a b/c");
        assert_eq!(r.range, Some(Range::From(5, Some(9))));
        assert!(r.keep_alive && !r.head_only);
        let r = get("HEAD http://h/x HTTP/1.1\r\nHOST: h\r\nConnection: foo, Close\r\n\r\n");
        assert!(r.path == "/x" && r.head_only && !r.keep_alive);
        assert!(!get("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(get("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
        assert_eq!(
            get("GET / HTTP/1.1\r\nHost:\r\nContent-Length: 0\r\n\r\n").path,
            "/"
        );
        assert_eq!(parse(b"GET / HT"), Parsed::Partial);
    }

    #[test]
    fn what_cannot_be_answered_has_its_status() {
        assert_eq!(wrong("GET / HTTP/1.1\r\n\r\n"), Some(BAD_REQUEST));
        assert_eq!(
            wrong("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
            Some(BAD_REQUEST)
        );
        assert_eq!(
            wrong("POST / HTTP/1.1\r\nHost: h\r\n\r\n"),
            Some(METHOD_NOT_ALLOWED)
        );
        assert_eq!(
            wrong("GET /%ff HTTP/1.1\r\nHost: h\r\n\r\n"),
            Some(BAD_REQUEST)
        );
        assert_eq!(
            wrong("GET x HTTP/1.1\r\nHost: h\r\n\r\n"),
            Some(BAD_REQUEST)
        );
        assert_eq!(
            wrong("GET / HTTP/2.0\r\nHost: h\r\n\r\n"),
            Some(VERSION_NOT_SUPPORTED)
        );
        assert_eq!(
            wrong("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"),
            Some(BAD_REQUEST)
        );
        assert_eq!(
            wrong("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Some(BAD_REQUEST)
        );
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        assert_eq!(wrong(&many), Some(HEAD_TOO_LARGE));
        let long = format!("GET / HTTP/1.1\r\nHost: {}", "h".repeat(HEAD_MAX));
        assert_eq!(wrong(&long), Some(HEAD_TOO_LARGE));
    }

    #[test]
    fn ranges_lie_within_the_file() {
        assert_eq!(range("bytes=0-0").unwrap().within(10), Some((0, 1)));
        assert_eq!(range("bytes=4-").unwrap().within(10), Some((4, 6)));
        assert_eq!(range("bytes=-3").unwrap().within(10), Some((7, 3)));
        assert_eq!(range("bytes=-30").unwrap().within(10), Some((0, 10)));
        assert_eq!(range("bytes=5-99").unwrap().within(10), Some((5, 5)));
        let most = format!("bytes=0-{}", u64::MAX);
        assert_eq!(range(&most).unwrap().within(10), Some((0, 10)));
        assert_eq!(range("bytes=10-").unwrap().within(10), None);
        assert_eq!(range("bytes=-0").unwrap().within(10), None);
        for other in [
            "bytes=1-2,4-5",
            "lines=1-2",
            "bytes=5-4",
            "bytes=-",
            "bytes=x-",
        ] {
            assert_eq!(range(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes);
            let mut request = b"GET /".to_vec();
            request.extend(&bytes);
            request.extend(b" HTTP/1.1\r\nHost: h\r\nRange: bytes=");
            request.extend(&bytes);
            request.extend(b"\r\n\r\n");
            if let Parsed::Request(r, n) = parse(&request) {
                prop_assert!(n <= request.len() && r.path.starts_with('/'));
            }
        }
    }
}
