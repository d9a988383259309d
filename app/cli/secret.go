package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"stepboard/config"
	"stepboard/internal/stores"
)

// secretName is the name of the file in a data folder with the secret that signs tokens.
const secretName = "secret"

// withFolderSecret returns the settings with the secret of the data folder, if there is one and no
// other way to check tokens is configured.
func withFolderSecret(cfg config.Config) (config.Auth, error) {
	auth := cfg.Auth
	if cfg.Data.Dir == "" || !auth.None() {
		return auth, nil
	}
	path := filepath.Join(cfg.Data.Dir, secretName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return auth, fmt.Errorf("data folder %s has no secret yet: serve makes it at its first start", cfg.Data.Dir)
	}
	if err != nil {
		return auth, err
	}
	auth.HS256Secret = strings.TrimSpace(string(text))
	if len(auth.HS256Secret) < 32 {
		return auth, fmt.Errorf("%s: must have at least 32 bytes", path)
	}
	return auth, nil
}

// makeSecret makes the secret of a data folder, unless it is there.
func makeSecret(folder *stores.Folder) error {
	if _, err := os.Stat(folder.Path(secretName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return folder.WriteFile(secretName, rand.Text()+rand.Text()+"\n")
}
