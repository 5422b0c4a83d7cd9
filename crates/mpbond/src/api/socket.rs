//! Socket of the API.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ORIGIN, REFERER};
use hyper::{HeaderMap, Request, StatusCode};
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::Failure;
use crate::http::{self, Answering};
use crate::rights::{Caller, Rights};
use crate::socket_file;
use crate::upgrade::Listeners;

/// Permissions of the socket, whatever the umask: every user may ask, and has the rights of his.
const MODE: u32 = 0o666;

/// Maximum number of clients at a time.
const MAX_CLIENTS: usize = 128;

/// The same without the right to read everything: such clients leave room for others.
const MAX_STRANGERS: usize = 64;

/// Pause after a client could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);

/// The socket beside a status socket: `primary.api` for `primary.sock`.
pub fn path_beside(status_socket: &Path) -> PathBuf {
    let is_sock = status_socket.extension().is_some_and(|e| e == "sock");
    let name = match is_sock {
        true => status_socket.file_stem(),
        false => status_socket.file_name(),
    };
    let mut name = name.unwrap_or_default().to_owned();
    name.push(".api");
    status_socket.with_file_name(name)
}

/// Listens at this path, or takes the listener of the process before over. A daemon works without
/// it: a failure is logged.
pub(crate) fn listen(own: &mut Listeners, path: &Path) -> Option<UnixListener> {
    let listener = own.unix(path, || socket_file::listen(path, MODE));
    let told = |error: &io::Error| warn!(%error, "no API at {}", path.display());
    listener.inspect_err(told).ok()
}

/// Answers clients' requests.
pub(crate) async fn serve(
    listener: UnixListener,
    answers: impl Fn(Caller, Request<Incoming>) -> Answering + 'static,
) {
    let answers = Rc::new(answers);
    // In tasks, which end with this one.
    let mut clients = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = clients.join_next() => continue,
        };
        let client = match accepted {
            Ok((client, _)) => client,
            Err(e) => {
                warn!(error = %e, "API");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let caller = Caller::of(&client);
        let most = match caller.rights {
            Rights::Status => MAX_STRANGERS,
            Rights::Read | Rights::Change => MAX_CLIENTS,
        };
        if clients.len() >= most {
            debug!("too many clients of the API");
            continue;
        }
        let answers = Rc::clone(&answers);
        let served = http::serve(client, move |request| match of_page(request.headers()) {
            true => Box::pin(async {
                let error = "requests of web pages (Origin, Referer) are refused";
                Failure::new(StatusCode::FORBIDDEN, error).answer()
            }),
            false => answers(caller, request),
        });
        let served: Pin<Box<dyn Future<Output = ()>>> = Box::pin(served);
        clients.spawn_local(served);
    }
}

/// Whether a web page has caused a request: a browser says so.
fn of_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key(REFERER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_beside_the_status_socket() {
        for (status, api) in [
            ("/run/mpbond/primary.sock", "/run/mpbond/primary.api"),
            (
                "/run/user/7/mpbond-primary.sock",
                "/run/user/7/mpbond-primary.api",
            ),
            ("a.b", "a.b.api"),
            ("x.api", "x.api.api"),
            ("/t/.sock", "/t/.sock.api"),
        ] {
            assert_eq!(path_beside(Path::new(status)), Path::new(api));
        }
    }
}
