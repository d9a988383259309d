package crash_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// killed runs a command that takes about some time, and kills it at a random moment of that.
func killed(t *testing.T, rng *rand.Rand, takes time.Duration, args ...string) {
	t.Helper()
	p := testenv.Start(t, args...)
	<-time.After(time.Duration(1.2 * rng.Float64() * float64(takes)))
	p.Kill()
}

// took runs a command, which must succeed, and returns how long that has taken.
func took(t *testing.T, args ...string) time.Duration {
	t.Helper()
	began := time.Now()
	run(t, args...)
	return time.Since(began)
}

// randomly returns a random source and logs its seed, CRASH_SEED or another one.
func randomly(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("CRASH_SEED"); text != "" {
		seed = testenv.Must(strconv.ParseUint(text, 10, 64))
	}
	t.Logf("CRASH_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// A backup is killed at any moment, by itself and while a process serves the folder. The file is
// complete or as it was before, nothing is left in the folder, and the next backup succeeds.
func TestSoakBackupKilled(t *testing.T) {
	t.Parallel()
	for _, served := range []bool{false, true} {
		t.Run(fmt.Sprintf("served=%t", served), func(t *testing.T) {
			t.Parallel()
			rng, dir, to := randomly(t), t.TempDir(), t.TempDir()
			path := filepath.Join(to, "backup")
			backup := []string{"backup", path, "--data=" + dir}
			run(t, "import", "friends", friendsFile(t, "9 10\n"), "--data="+dir)
			run(t, backup...)
			old := testenv.Must(os.ReadFile(path))
			run(t, "import", "friends", friendsFile(t, "9 11\n"), "--data="+dir)
			if served {
				testenv.ServeFolder(t, dir)
			}
			takes := took(t, backup...)
			for range testenv.Rounds(12, 300) {
				if err := os.WriteFile(path, old, 0o600); err != nil {
					t.Fatal(err)
				}
				killed(t, rng, takes, backup...)
				if !bytes.Equal(testenv.Must(os.ReadFile(path)), old) {
					checkBackup(t, path)
				}
			}
			testenv.Eventually(t, "a backup succeeds", func() bool { // the last one may still end
				_, stderr, status := testenv.Run(t, backup...)
				if status != 0 && !served {
					t.Error(stderr)
				}
				return status == 0
			})
			checkBackup(t, path)
			if _, err := os.Stat(filepath.Join(dir, "unfinished")); !os.IsNotExist(err) {
				t.Errorf("a copy is left: %v", err)
			}
		})
	}
}

// checkBackup expects a whole database in which user 9 has two friends.
func checkBackup(t *testing.T, path string) {
	t.Helper()
	db := testenv.Must(sql.Open("sqlite", "file:"+path+"?mode=ro&immutable=1"))
	defer db.Close()
	var whole string
	var users int
	if err := db.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM users), integrity_check FROM pragma_integrity_check").Scan(&users, &whole); err != nil || whole != "ok" || users != 3 {
		t.Errorf("the backup has %d users and is %s, %v", users, whole, err)
	}
}

// A restore is killed at any moment, and run again. The folder has the replaced database or the
// restored one, complete.
func TestSoakRestoreKilled(t *testing.T) {
	t.Parallel()
	rng := randomly(t)
	from, backup, _ := folderToRestore(t)
	takes := took(t, "restore", backup, "--data="+copyFolder(t, from))
	found := make(map[string]int)
	for range testenv.Rounds(15, 200) {
		dir := copyFolder(t, from)
		killed(t, rng, takes, "restore", backup, "--data="+dir)
		got := friendsOfNine(t, dir)
		if found[got]++; got != ofReplaced && got != ofRestored {
			t.Errorf("the friends are %s", got)
		}
		takes = took(t, "restore", backup, "--data="+dir)
		if got := friendsOfNine(t, dir); got != ofRestored {
			t.Errorf("restored again, the friends are %s", got)
		}
	}
	t.Logf("the friends after kills were %v", found)
}

// A move is killed at any moment, again and again, until it has ended. Then every table is equal.
func TestSoakMoveKilled(t *testing.T) {
	t.Parallel()
	rng := randomly(t)
	folder, before, seen := folderToMove(t)
	moveTo := func(env *testenv.Env) (dir string, move []string) {
		dir = copyFolder(t, folder)
		return dir, append([]string{"move", "--data=" + dir}, serversOf(env)...)
	}
	_, move := moveTo(harness.RealConfig(t))
	takes := took(t, move...)
	for range testenv.Rounds(3, 50) {
		env := harness.RealConfig(t)
		dir, move := moveTo(env)
		for range 4 {
			killed(t, rng, takes, move...)
		}
		if _, err := os.Stat(filepath.Join(dir, "moved")); err != nil {
			run(t, move...)
		}
		checkMoved(t, dir, env)
		p := testenv.Serve(t, env.Config)
		if got := seen(p); got != before {
			t.Errorf("after the move:\n%s\nbefore:\n%s", got, before)
		}
		p.Stop()
	}
}
