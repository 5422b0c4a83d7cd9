//! Request and answer over an open TCP connection, with time stamps of all clocks.

use std::io::Write;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::error::ProbeError;
use crate::options::Options;
use crate::record::{KernelSource, Pair, Stamps, UserSource, WireSource};
use crate::stamping;
use crate::sys::{self, Received};

/// Shortest read timeout of the kernel: 0 would disable it.
const SHORTEST: Duration = Duration::from_micros(1);

/// Open connection with time stamps.
pub(crate) struct Asking {
    socket: Socket,
    /// Octets sent since time stamps were enabled: the kernel numbers stamps by them.
    sent_bytes: u32,
}

/// Times of a request and of the parts of its answer.
pub(crate) struct Times {
    out_ns: u64,
    kernel_out: Option<u64>,
    wire_out: Option<u64>,
    first: (u64, Received),
    last: (u64, Received),
}

impl Asking {
    pub(crate) fn new(socket: Socket) -> Self {
        stamping::start(&socket);
        Self {
            socket,
            sent_bytes: 0,
        }
    }

    /// Sends `question` and passes the answer to `whole` until that reports that it is complete.
    /// `None` on timeout or when the connection ends; an error when `whole` rejects the answer.
    pub(crate) fn ask(
        &mut self,
        question: &[u8],
        options: &Options,
        mut whole: impl FnMut(&[u8]) -> Result<bool, String>,
    ) -> Result<Option<Times>, ProbeError> {
        let deadline = Instant::now() + options.timeout;
        let out_ns = sys::now_ns();
        if (&self.socket).write_all(question).is_err() {
            return Ok(None);
        }
        self.sent_bytes = self.sent_bytes.wrapping_add(question.len() as u32);
        let key = self.sent_bytes.wrapping_sub(1);
        let mut first = None;
        let (mut kernel_out, mut wire_out) = (None, None);
        let mut buffer = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left < SHORTEST {
                return Ok(None);
            }
            self.socket
                .set_read_timeout(Some(left))
                .map_err(ProbeError::io("a read timeout"))?;
            let Ok(got) = sys::await_bytes(&self.socket, &mut buffer) else {
                return Ok(None);
            };
            let in_ns = sys::now_ns();
            let mut nothing = [0; 256];
            while let Ok(Some(sent)) = sys::receive(&self.socket, &mut nothing, true) {
                if sent.sent_key == Some(key) {
                    kernel_out = kernel_out.or(sent.software_ns);
                    wire_out = wire_out.or(sent.hardware_ns);
                }
            }
            let Some(got) = got else { continue };
            if got.bytes == 0 {
                return Ok(None);
            }
            let first = *first.get_or_insert((in_ns, got));
            let bytes = buffer.get(..got.bytes).unwrap_or_default();
            match whole(bytes) {
                Ok(false) => {}
                Ok(true) => {
                    return Ok(Some(Times {
                        out_ns,
                        kernel_out,
                        wire_out,
                        first,
                        last: (in_ns, got),
                    }));
                }
                Err(reason) => {
                    return Err(ProbeError::Target {
                        target: options.target,
                        reason,
                    });
                }
            }
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl Times {
    /// Stamps of the request and the answer's first part.
    pub(crate) fn first(&self) -> Stamps {
        self.stamps(self.first)
    }

    /// Stamps of the request and the answer's last part.
    pub(crate) fn last(&self) -> Stamps {
        self.stamps(self.last)
    }

    fn stamps(&self, (in_ns, got): (u64, Received)) -> Stamps {
        let pair = |out: Option<u64>, came: Option<u64>| Some((out?, came?));
        Stamps {
            user: Some(Pair {
                source: UserSource::ClockGettime,
                out_ns: self.out_ns,
                in_ns,
            }),
            kernel: pair(self.kernel_out, got.software_ns).map(|(out_ns, in_ns)| Pair {
                source: KernelSource::SoTimestamping,
                out_ns,
                in_ns,
            }),
            wire: pair(self.wire_out, got.hardware_ns).map(|(out_ns, in_ns)| Pair {
                source: WireSource::Hardware,
                out_ns,
                in_ns,
            }),
        }
    }
}
