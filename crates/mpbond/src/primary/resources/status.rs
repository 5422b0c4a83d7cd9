//! `/v1/status`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{Response, StatusCode};

use super::Resources;
use crate::api::Failure;
use crate::http::{self, Answer};
use crate::rights::Rights;
use crate::status_text::whole;

/// Interval at which the status is made anew for clients that may not read everything: asking must
/// not keep the thread of the data path busy.
const PUBLIC_EVERY: Duration = Duration::from_secs(1);

impl Resources {
    pub(super) async fn status_for(&self, rights: Rights) -> Result<Response<Answer>, Failure> {
        if rights >= Rights::Read {
            let report = self.primary.described(&*self.status).await;
            let text = Bytes::from(whole(report));
            return Ok(http::answer(StatusCode::OK, "application/json", text));
        }
        let mut public = self.public.borrow_mut();
        let recent = public.as_ref();
        let recent = recent.filter(|(at, _)| at.elapsed() < PUBLIC_EVERY);
        let text = match recent {
            Some((_, text)) => text.clone(),
            None => {
                let mut status = (self.status)();
                status.withhold_transfers();
                let text = Bytes::from(whole(status));
                *public = Some((Instant::now(), text.clone()));
                text
            }
        };
        Ok(http::answer(StatusCode::OK, "application/json", text))
    }
}
