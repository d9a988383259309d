package stores

// Decisions about folders, which tests can't bring about.
var (
	NetworkFUSEOf = networkFUSEOf
	CheckAccounts = checkAccounts
)
