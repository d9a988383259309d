package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
)

// secretName is the name of the file in a data folder with the secret that signs tokens.
const secretName = "secret"

// withFolderSecret returns the settings with the secret of the data folder, if there is one and no
// other way to check tokens is configured.
func withFolderSecret(cfg config.Config) (auth config.Auth, err error) {
	auth = cfg.Auth
	if cfg.Data.Dir != "" && auth.None() {
		auth.HS256Secret, err = folderSecret(cfg.Data.Dir)
	}
	return auth, err
}

// useFolderSecret makes the secret of the data folder, unless it is there, and lets it sign all tokens, or beside a JWKS
// those of sessions.
func useFolderSecret(o *app.Options) error {
	if err := makeSecret(o.Stores.Folder); err != nil {
		return err
	}
	secret, err := folderSecret(o.Config.Data.Dir)
	if o.Config.Auth.None() {
		o.Config.Auth.HS256Secret = secret
	} else {
		o.SessionSecret = secret
	}
	return err
}

// folderSecret reads the secret of a data folder.
func folderSecret(dir string) (string, error) {
	path := filepath.Join(dir, secretName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("data folder %s has no secret yet: serve makes it at its first start", dir)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if len(secret) < 32 {
		return "", fmt.Errorf("%s: must have at least 32 bytes", path)
	}
	return secret, nil
}

// makeSecret makes the secret of a data folder, unless it is there.
func makeSecret(folder *stores.Folder) error {
	if _, err := os.Stat(folder.Path(secretName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return folder.WriteFile(secretName, rand.Text()+rand.Text()+"\n")
}
