//! A machine: namespaces of its own, and a root of its own over that of this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpbond_testing::namespaces::{sh, unshare};
use mpbond_testing::{Need, has_script};
use nix::unistd::geteuid;

/// Folder in which machines have their files, in a mount namespace of the test.
pub const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// What the kernel must allow.
const TRIAL: &str = "
    mount -t tmpfs tmpfs $FOLDER
    mount -t sysfs sysfs /sys
    mkdir $FOLDER/up $FOLDER/work $FOLDER/root
    mount -t overlay overlay \
        -o lowerdir=/,upperdir=$FOLDER/up,workdir=$FOLDER/work $FOLDER/root
    nsenter --target $$ --mount --net --uts --pid --root --wdns=/ true";

/// Whether machines, and terminals at them, can be made. Otherwise the test is to end: this reports
/// what is missing.
pub fn can_be_made() -> bool {
    if !geteuid().is_root() {
        Need::Root.is_missing("only root mounts root file systems with all their owners");
        return false;
    }
    if !has_script() {
        return false;
    }
    let Some(mut unshare) = unshare("-mn") else {
        return false;
    };
    let tried = unshare.args(["sh", "-ec", TRIAL]).env("FOLDER", FOLDER);
    let said = tried.output().unwrap();
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        Need::Root.is_missing(format_args!("no machine can be made here: {why}"));
    }
    said.status.success()
}

/// Makes room for machines in memory, in the mount namespace of a role.
pub fn prepare() {
    sh(&format!(
        "mount -t tmpfs tmpfs {FOLDER}
         mount -t sysfs sysfs /sys"
    ));
}

/// A root with everything that is installed here. What is changed in it is in memory.
const ROOT: &str = "
    mkdir -p $FOLDER/up $FOLDER/work $FOLDER/root
    mount -t overlay overlay \
        -o lowerdir=/,upperdir=$FOLDER/up,workdir=$FOLDER/work $FOLDER/root
    cd $FOLDER/root
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount --rbind /dev dev
    mount -t tmpfs tmpfs run
    mount -t tmpfs tmpfs tmp
    printf %s $NAME > /proc/sys/kernel/hostname
    ip link set lo up
    mkdir -p run/systemd/system
    rm -rf etc/mpbond usr/local/bin/mpbond
    printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' $NAME > etc/hosts
    rm -f etc/resolv.conf
    touch etc/resolv.conf run/ready
    exec chroot . sleep 3600";

/// Program that stands in for sudo: the user is root.
const SUDO: &str = "#!/bin/sh\nexec \"$@\"\n";

/// A machine; its programs are killed when it is dropped.
pub struct Machine {
    pub name: &'static str,
    holder: Child,
    /// First process of its own.
    pub process: u32,
}

impl Machine {
    /// Starts one.
    pub fn start(name: &'static str) -> Self {
        let holder = Command::new("unshare")
            .args([
                "--mount",
                "--net",
                "--uts",
                "--pid",
                "--fork",
                "--kill-child",
            ])
            .args(["sh", "-ec", ROOT])
            .env("FOLDER", Path::new(FOLDER).join(name))
            .env("NAME", name)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let deadline = Instant::now() + Duration::from_secs(120);
        let process = loop {
            assert!(Instant::now() < deadline, "{name} does not start");
            std::thread::sleep(Duration::from_millis(10));
            let Ok(text) = std::fs::read_to_string(&children) else {
                continue;
            };
            let Ok(process) = text.trim().parse::<u32>() else {
                continue;
            };
            if Path::new(&format!("/proc/{process}/root/run/ready")).exists() {
                break process;
            }
        };
        let machine = Self {
            name,
            holder,
            process,
        };
        machine.install("usr/local/sbin/sudo", SUDO);
        machine.install("usr/local/sbin/systemctl", include_str!("systemctl"));
        machine
    }

    /// A file of this machine, seen from outside.
    pub fn file(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.process)).join(path)
    }

    /// Paths of the files that are there and not on this host, or have been changed, but for those
    /// in file systems of its own such as `run`.
    pub fn own_files(&self) -> BTreeSet<String> {
        let files = sh(&format!("cd {FOLDER}/{}/up && find . ! -type d", self.name));
        let own = files.lines().filter_map(|path| path.strip_prefix("./"));
        own.map(str::to_owned).collect()
    }

    /// Writes a program.
    pub fn install(&self, path: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(self.file(path), text).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.file(path), mode).unwrap();
    }

    /// Runs lines of shell in its network, with the files of this machine.
    pub fn network(&self, lines: &str) -> String {
        sh(&format!("nsenter -t {} -n sh -ec '{lines}'", self.process))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
