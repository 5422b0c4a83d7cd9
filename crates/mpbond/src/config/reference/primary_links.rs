//! Sections of a primary's configuration about its links: own paths, helpers and pipes to them.

use mpbond_command::{FileKey, FileSection, KeyDefault};

const BACKUP: FileKey = FileKey {
    name: "backup",
    values: "true or false",
    default: KeyDefault::Value("false"),
    meaning: "Whether data goes this way only when no other way works.",
};

pub(super) const PATH: FileSection = FileSection {
    header: "[[path]]",
    about: "A link of this device to the Internet; one section for each. Paths and pipes to \
            helpers are at most 16 together.",
    keys: &[
        FileKey {
            name: "name",
            values: "text of 1 to 64 octets",
            default: KeyDefault::Words("the interface, the source address, or `direct`"),
            meaning: "Name in status and logs. No other path or pipe may have it.",
        },
        FileKey {
            name: "interface",
            values: "name of a network interface",
            default: KeyDefault::Words("none: routes decide"),
            meaning: "Interface that connections on this path are bound to. With more than \
                      one `[[path]]`, each needs `interface` or `source`.",
        },
        FileKey {
            name: "source",
            values: "IP address",
            default: KeyDefault::Words("none"),
            meaning: "Local address that connections on this path are bound to.",
        },
        FileKey {
            name: "proxy",
            values: "address and port, host name and port, or a list of them",
            default: KeyDefault::Words("`address` of `[proxy]`"),
            meaning: "Addresses of the proxy on this path, 1 to 8.",
        },
        BACKUP,
    ],
};

const INTERFACE: FileKey = FileKey {
    name: "interface",
    values: "name of a network interface",
    default: KeyDefault::Words("none: routes decide"),
    meaning: "Interface that connections to the helper are bound to.",
};

const SOURCE: FileKey = FileKey {
    name: "source",
    values: "IP address",
    default: KeyDefault::Words("none"),
    meaning: "Local address that connections to the helper are bound to.",
};

const ETHERNET_FRAMES: FileKey = FileKey {
    name: "ethernet_frames",
    values: "true or false",
    default: KeyDefault::Value("false"),
    meaning: "Whether relays over this pipe use Ethernet frames in place of TCP. It needs the same \
              key at the helper, CAP_NET_RAW at the start of both, and both on one link; otherwise \
              TCP is used, and `mpbond status` says why. Where no pipe had it at the start of the \
              process, it is used from the next start on. It costs more processor time than TCP on \
              interfaces with segmentation offload.",
};

const RADIO: FileKey = FileKey {
    name: "radio",
    values: "name of a radio",
    default: KeyDefault::Words("none"),
    meaning: "This device's radio of the pipe, by the name of a model (docs/policy.md), such as \
              `watch-bt`, `watch-wifi` or `wifi-s4`. With `pipes` as `best` or `app`, the pipe is \
              preferred whose radios need the fewest joules per bit, in place of the first one in \
              the file; named for all of them but those with `backup`, or for none. A policy that \
              names a helper's radio prices the pipe by this one.",
};

const FAR_RADIO: FileKey = FileKey {
    name: "far_radio",
    values: "name of a radio",
    default: KeyDefault::Words(
        "none: it does not count in the choice, and as `wifi-s4` in a policy",
    ),
    meaning: "The helper's radio of the pipe, such as `phone-bt`; beside `radio`.",
};

pub(super) const HELPER: FileSection = FileSection {
    header: "[[helper]]",
    about: "A device that lends its link; one section for each. `address`, `interface`, `source`, \
            `backup`, `ethernet_frames`, `radio` and `far_radio` describe the pipe to it; several \
            pipes have sections `[[helper.pipe]]` instead, beside which these keys are refused.",
    keys: &[
        FileKey {
            name: "name",
            values: "text of 1 to 64 octets",
            default: KeyDefault::Words("the address, or the beginning of the id"),
            meaning: "Name of its pipe in status and logs. No other path or pipe may have it. Of \
                      several pipes, it names those that have no name of their own.",
        },
        FileKey {
            name: "address",
            values: "address and port, `unix:` and path, or \"discover\"",
            default: KeyDefault::Words("none; required without `[[helper.pipe]]` sections"),
            meaning: "Where the helper listens, on the network that both devices share. `unix:`: \
                      a Unix socket of this device, whose process carries the bytes to the helper. \
                      `discover`: it is looked for there, by its announcements; only for a helper \
                      with one pipe.",
        },
        FileKey {
            name: "id",
            values: "device id",
            default: KeyDefault::Required,
            meaning: "Id of the helper, as `mpbond id` prints it there.",
        },
        INTERFACE,
        SOURCE,
        BACKUP,
        ETHERNET_FRAMES,
        RADIO,
        FAR_RADIO,
        FileKey {
            name: "pipes",
            values: "\"all\", \"best\" or \"app\"",
            default: KeyDefault::Value("\"all\""),
            meaning: "Use of several pipes. `all`: at the same time; rules of the policy may name \
                      the paths of a connection. `best`: one of them, and the others stand by, \
                      joined; the cheapest comes first in the file, unless `radio` names radios. \
                      Another one is used when it does not work, while its signal is weak, or \
                      while it is too slow. `app`: the same, except that a slow one is kept: rules \
                      name the paths of applications that need another one. Pipes with `backup` \
                      are left out.",
        },
    ],
};

pub(super) const PIPE: FileSection = FileSection {
    header: "[[helper.pipe]]",
    about: "One of several pipes to the helper whose `[[helper]]` section is above, such as one \
            over WiFi and one over USB; one section for each, at most 4 to a device. They share \
            the helper's link to the Internet. All without `backup` are in use at the same time, \
            unless `pipes` is `best` or `app`.",
    keys: &[
        FileKey {
            name: "name",
            values: "text of 1 to 64 octets",
            default: KeyDefault::Words(
                "the name of the helper, from the second pipe on with its number; without that \
                 name, the address",
            ),
            meaning: "Name in status and logs. No other path or pipe may have it. When a pipe is \
                      removed, the numbers of those below it change, and so do names with a number.",
        },
        FileKey {
            name: "address",
            values: "address and port, or `unix:` and path",
            default: KeyDefault::Required,
            meaning: "Where the helper listens on the network of this pipe, or the Unix socket of \
                      this device that leads to it.",
        },
        INTERFACE,
        SOURCE,
        BACKUP,
        ETHERNET_FRAMES,
        RADIO,
        FAR_RADIO,
    ],
};
