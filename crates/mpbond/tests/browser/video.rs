//! A WebM file (Matroska, RFC 9559) with an index for seeking, large enough that a browser does not
//! hold all of it.

/// Duration, which page.html has as well.
const DURATION_S: u16 = 120;
const FRAMES_A_SECOND: u16 = 10;

/// Octets of a frame.
const FRAME_BYTES: usize = 40_000;

/// A key frame of VP8 (RFC 6386, section 9.1): one macroblock of 16 × 16 pixels. A decoder ignores
/// octets after its last partition.
const KEY_FRAME: [u8; 22] = [
    0x30, 0x01, 0x00, 0x9d, 0x01, 0x2a, 16, 0, 16, 0, 0x0e, 0xc0, 0xfe, 0x25, 0xa4, 0x00, 0x03,
    0x70, 0x00, 0x00, 0x00, 0x00,
];

/// An element; its size takes eight octets (RFC 8794, section 4).
fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
    let size = (content.len() as u64 | 1 << 56).to_be_bytes();
    [id, &size, content].concat()
}

/// An element with an integer of eight octets.
fn number(id: &[u8], value: u64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

/// The file: a cluster for every second, which begins at an entry of the index.
pub fn file() -> Vec<u8> {
    let duration_ms = f64::from(DURATION_S) * 1000.0;
    let head = element(
        &[0x1a, 0x45, 0xdf, 0xa3], // EBML
        &[
            number(&[0x42, 0x86], 1),        // EBMLVersion
            number(&[0x42, 0xf7], 1),        // EBMLReadVersion
            number(&[0x42, 0xf2], 4),        // EBMLMaxIDLength
            number(&[0x42, 0xf3], 8),        // EBMLMaxSizeLength
            element(&[0x42, 0x82], b"webm"), // DocType
            number(&[0x42, 0x87], 2),        // DocTypeVersion
            number(&[0x42, 0x85], 2),        // DocTypeReadVersion
        ]
        .concat(),
    );
    let information = element(
        &[0x15, 0x49, 0xa9, 0x66], // Info
        &[
            number(&[0x2a, 0xd7, 0xb1], 1_000_000), // TimestampScale: milliseconds
            element(&[0x44, 0x89], &duration_ms.to_be_bytes()), // Duration
            element(&[0x4d, 0x80], b"mpbond"),      // MuxingApp
            element(&[0x57, 0x41], b"mpbond"),      // WritingApp
        ]
        .concat(),
    );
    let picture = [number(&[0xb0], 16), number(&[0xba], 16)].concat(); // PixelWidth, PixelHeight
    let track = [
        number(&[0xd7], 1),         // TrackNumber
        number(&[0x73, 0xc5], 1),   // TrackUID
        number(&[0x83], 1),         // TrackType: video
        number(&[0x9c], 0),         // FlagLacing
        element(&[0x86], b"V_VP8"), // CodecID
        element(&[0xe0], &picture), // Video
    ];
    let tracks = element(
        &[0x16, 0x54, 0xae, 0x6b],          // Tracks
        &element(&[0xae], &track.concat()), // TrackEntry
    );
    let clusters: Vec<Vec<u8>> = (0..DURATION_S).map(cluster).collect();
    // All numbers have eight octets: the index is as long with other positions.
    let before = information.len() + tracks.len();
    let length = index(&vec![0; clusters.len()]).len();
    let mut at = before + length;
    let mut positions = Vec::new();
    for cluster in &clusters {
        positions.push(at as u64);
        at += cluster.len();
    }
    let segment = [information, tracks, index(&positions), clusters.concat()].concat();
    [head, element(&[0x18, 0x53, 0x80, 0x67], &segment)].concat() // Segment
}

/// The clusters' positions in the segment.
fn index(positions: &[u64]) -> Vec<u8> {
    let point = |(second, position): (u64, &u64)| {
        // CueTrack, CueClusterPosition
        let place = [number(&[0xf7], 1), number(&[0xf1], *position)].concat();
        // CueTime, CueTrackPositions
        let content = [number(&[0xb3], second * 1000), element(&[0xb7], &place)].concat();
        element(&[0xbb], &content) // CuePoint
    };
    let points: Vec<_> = (0..).zip(positions).map(point).collect();
    element(&[0x1c, 0x53, 0xbb, 0x6b], &points.concat()) // Cues
}

/// The frames of a second.
fn cluster(second: u16) -> Vec<u8> {
    let mut content = number(&[0xe7], u64::from(second) * 1000); // Timestamp
    let mut frame = KEY_FRAME.to_vec();
    frame.resize(FRAME_BYTES, 0);
    for n in 0..FRAMES_A_SECOND {
        let [high, low] = (n * (1000 / FRAMES_A_SECOND)).to_be_bytes();
        // Track, time in the cluster, and the flag of a key frame.
        let block = [&[0x81, high, low, 0x80], &frame[..]].concat();
        content.extend(element(&[0xa3], &block)); // SimpleBlock
    }
    element(&[0x1f, 0x43, 0xb6, 0x75], &content) // Cluster
}
