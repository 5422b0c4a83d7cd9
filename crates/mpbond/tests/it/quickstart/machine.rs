//! A machine: namespaces of its own, and a root of its own over that of this machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpbond_testing::namespaces::sh;

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
    /// Starts one; `folder` is on a file system in memory.
    pub fn start(name: &'static str, folder: &Path) -> Self {
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
            .env("FOLDER", folder.join(name))
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

    /// Writes a program.
    fn install(&self, path: &str, text: &str) {
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
