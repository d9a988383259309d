package stores

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// fuse is the type of file systems in user space, local ones and others.
const fuse = 0x65735546

// networkTypes are the types of network file systems. Their locks may not hold between machines,
// and they don't share memory between them, so two processes could write a database at the same
// time.
//
// 9p (0x01021997) is not among them: gVisor shows the local disks of containers as 9p. Where it
// can't share memory, as under WSL, SQLite refuses to open the database.
var networkTypes = map[uint32]string{
	0x6969: "nfs", 0x517B: "smb", 0xFE534D42: "smb", 0xFF534D42: "cifs", 0x00C36400: "ceph",
	0x5346414F: "afs", 0x6B414653: "afs", 0x73757245: "coda", 0x0BD00BD0: "lustre", 0x7461636F: "ocfs2", 0x01161970: "gfs2",
}

// networkFUSE are file systems in user space whose files are on other machines. Any other is taken
// for local: containers without root have their disks on fuse-overlayfs, and many desktops NTFS.
var networkFUSE = map[string]bool{
	"sshfs": true, "s3fs": true, "mount-s3": true, "gcsfuse": true, "goofys": true, "blobfuse": true, "blobfuse2": true,
	"rclone": true, "glusterfs": true, "ceph-fuse": true, "juicefs": true, "davfs": true, "curlftpfs": true, "smbnetfs": true,
	"seaweedfs": true, "moosefs": true, "gvfsd-fuse": true,
}

// networkFileSystem returns the kind of the network file system that a folder is on, or "".
func networkFileSystem(dir string) (string, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if uint32(fs.Type) != fuse {
		return networkTypes[uint32(fs.Type)], nil
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(dir, &stat); err != nil {
		return "", &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", nil //nolint:nilerr // without /proc there is no name to go by
	}
	return networkFUSEOf(string(mounts), major(stat.Dev), minor(stat.Dev)), nil
}

// networkFUSEOf returns the name of a device's file system in /proc/self/mountinfo if its files are
// on other machines, and "" otherwise.
func networkFUSEOf(mounts string, major, minor uint64) string {
	device := fmt.Sprintf("%d:%d", major, minor)
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kinds := strings.Fields(before), strings.Fields(after)
		if len(fields) < 3 || len(kinds) == 0 || fields[2] != device {
			continue
		}
		if name := strings.TrimPrefix(kinds[0], "fuse."); networkFUSE[name] {
			return name
		}
	}
	return ""
}

// major and minor are the parts of a device's number.
func major(dev uint64) uint64 { return dev>>8&0xfff | dev>>32&^0xfff }
func minor(dev uint64) uint64 { return dev&0xff | dev>>12&^0xff }
