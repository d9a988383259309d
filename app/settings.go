package app

import (
	"fmt"

	"stepboard/config"
	"stepboard/jobs"
	"stepboard/services/boards/catalog"
)

// CheckSettings checks the settings that config can't check by itself: the
// schedule of jobs and the definitions of boards. The error names the setting.
// Commands call it after loading.
func CheckSettings(cfg *config.Config) error {
	if err := jobs.CheckSpec(cfg.Jobs.ArchiveCron); err != nil {
		return fmt.Errorf("jobs.archive_cron: %w", err)
	}
	if cfg.Jobs.DigestCron != "" {
		if err := jobs.CheckSpec(cfg.Jobs.DigestCron); err != nil {
			return fmt.Errorf("jobs.digest_cron: %w", err)
		}
	}
	for _, def := range cfg.BoardDefinitions() {
		if _, err := catalog.NewBoard(def); err != nil {
			return fmt.Errorf("boards: %w", err)
		}
		if err := catalog.CheckLate(def, cfg.Ledger.Retain); err != nil {
			return fmt.Errorf("boards: board %s: %w", def.Name, err)
		}
	}
	return nil
}
