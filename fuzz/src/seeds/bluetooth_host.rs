//! Input of `mpbond-bluetooth`: events, a file of BlueZ, answers.

/// Command Complete of Read RSSI and its refusal, a file about a bonded device and one about a
/// device of Low Energy, answers of an API.
pub(super) fn inputs() -> Vec<Vec<u8>> {
    let mut inputs = vec![
        vec![4, 0x0e, 7, 1, 0x05, 0x14, 0, 0x2a, 0, 0xf4],
        vec![4, 0x0e, 7, 1, 0x05, 0x14, 2, 0x2a, 0, 0],
    ];
    let texts = [
        "[General]\nName=phone\nClass=0x5a020c\n\n[LinkKey]\nKey=00\nType=4\n",
        "[LongTermKey]\nKey=00\n[General]\nName=light\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    ];
    inputs.extend(texts.map(|text| text.as_bytes().to_vec()));
    inputs
}
