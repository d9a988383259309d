package stores_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"stepboard/internal/stores"
)

// nobody is an account that is not root and owns nothing.
const nobody = 65534

// asNobody calls do with the rights of an account that is not root.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is not unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setfsuid(nobody); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}

// Who may not read and write the folder or one of its files is told so.
func TestAFolderWithoutRightsIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		deny func(dir string) error
	}{
		{"the folder", func(dir string) error { return os.Chmod(dir, 0o500) }},
		{"the database", func(dir string) error { return os.Chmod(filepath.Join(dir, "stepboard.db"), 0o400) }},
		{"the log", func(dir string) error { return os.WriteFile(filepath.Join(dir, "stepboard.db-wal"), nil, 0o400) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			above := t.TempDir()
			dir := filepath.Join(above, "data")
			for ; above != "/"; above = filepath.Dir(above) {
				if info, err := os.Stat(above); err != nil || info.Mode().Perm()&0o005 != 0o005 {
					if err := os.Chmod(above, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			open(t, dir).Close()
			if os.Geteuid() == 0 {
				// The files are nobody's, as if the test had not run as root. The folder stays
				// root's, as a mounted one may be: anybody may write it.
				for _, e := range []string{"lock", "stepboard.db"} {
					if err := os.Chown(filepath.Join(dir, e), nobody, nobody); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Chmod(dir, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			asNobody(t, func() { open(t, dir).Close() })
			if err := tt.deny(dir); err != nil {
				t.Fatal(err)
			}
			asNobody(t, func() { contains(t, refused(t, dir), "must be able to read and write it and its files: ") })
		})
	}
}

// A folder of root that others may write, as a mounted one, is taken.
func TestRootIsRefusedOnAFolderOfAnotherAccount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		account int
		owner   uint32
		refused bool
	}{{0, 0, false}, {0, nobody, true}, {nobody, 0, false}, {nobody, nobody, false}, {1000, nobody, false}} {
		if err := stores.CheckAccounts(tt.account, tt.owner); (err != nil) != tt.refused {
			t.Errorf("account %d on a folder of %d: %v", tt.account, tt.owner, err)
		}
	}
}

// File systems in user space are known by the names in the list of mounts.
func TestNetworkFileSystemsInUserSpace(t *testing.T) {
	t.Parallel()
	mounts := "22 1 0:21 / / rw,relatime shared:1 - fuse.fuse-overlayfs fuse-overlayfs rw\n" +
		"40 22 0:52 / /mnt/data rw,nosuid shared:9 master:1 - fuse.sshfs ben@host:/data rw,user_id=0\n" +
		"41 22 8:1 / /mnt/disk rw - fuseblk /dev/sda1 rw\n"
	for minor, want := range map[uint64]string{21: "", 52: "sshfs", 53: ""} {
		if got := stores.NetworkFUSEOf(mounts, 0, minor); got != want {
			t.Errorf("device 0:%d is on %q, want %q", minor, got, want)
		}
	}
}
