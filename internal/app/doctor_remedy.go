package app

// restoreFiles is the remedy for damaged or missing files.
const restoreFiles = "Restore the files from a backup, then run certvault doctor --files."

// remedies maps the name of a finding to the remedy if the finding is not good. Each remedy is one
// sentence.
var remedies = map[string]string{ //nolint:gosec // no value is a secret
	"data folder":             "Set --data to the folder of the vault, and run the command as the vault's user.",
	"disk":                    "Free disk space, or move the data folder to a larger disk.",
	"master key":              "Set --master-key-file to the key of this vault, or write the key from its recovery sheet with certvault key recover.",
	"secret files":            "Run chmod 600 on the named files.",
	"installation":            "Set --data or --blob to the files of this database, or --database to the database of these files.",
	"file system":             "Move the data folder to a local disk, or use PostgreSQL with --database.",
	"file store":              "Correct --blob, its credentials and its permissions, or the permissions of the folder files in the data folder.",
	"incomplete uploads":      "Add a lifecycle rule with AbortIncompleteMultipartUpload after 1 day to the bucket.",
	"PDF renderer":            "Run the vault on amd64 or arm64, and without MemoryDenyWriteExecute in its unit.",
	"database":                "Set --data to the folder of the vault or --database to its URL, and start the database server.",
	"schema":                  "Run certvault migrate, or start the server of this version.",
	"interrupted restore":     "Delete what the finding names, then run certvault restore again.",
	"restore":                 "Check the list of certvault restore, then run certvault restore --accept.",
	"certificates":            "Keep a server with the role work running, and read its log for the reason.",
	"counts":                  "Stop the server and correct the totals as the section Health of operations.md describes.",
	"secrets of the database": "Set --master-key-file and --key-identity-file to the secrets of this database.",
	"signing keys":            "Run certvault key rotate or certvault key import for the named institution.",
	"institution names":       "Run certvault institution set with --name or with --allow-same-name for the named institutions.",
	"addresses":               "Remove the rights of accounts of other people with certvault member remove and certvault operator remove, then run certvault user accept-address.",
	"address":                 "Start the server with a public address in --base-url before it issues real certificates.",
	"database structure":      "Stop the server and restore the latest backup with certvault restore.",
	"database size":           "If the space is needed for other data, stop the server and run certvault compact.",
	"database writes":         "Read the message of the database, and free space on its disk or end its read-only mode.",
	"database transactions":   "End the programs that keep the transaction open.",
	"clock":                   "Synchronize the clocks of this host and of the database server with NTP.",
	"connections":             "Raise max_connections of PostgreSQL, or set pool_max_conns in --database.",
	"durability":              "Set fsync of PostgreSQL to on, and remove synchronous_commit from --database.",
	"extensions":              "Create the named extensions in the database with CREATE EXTENSION.",
	"collation":               "Run REINDEX DATABASE and ALTER DATABASE … REFRESH COLLATION VERSION.",
	"read replica":            "Set --database-read to a replica of this database, and check that it receives changes.",
	"mail":                    "Start the server with --smtp, and check this setting with certvault doctor --mail ADDRESS.",
	"test message":            "Set or correct --smtp, --mail-from and the settings of DKIM, in the file or environment of the server.",
	"webhooks":                "Find the endpoints with certvault webhook list, and ask their receivers to respond, or pause them with certvault webhook pause.",
	"backups":                 "Make a backup with certvault backup, and check --backup of the server.",
	"stored files":            restoreFiles,
	"checks of stored files":  "Keep a server with the role work running, or start it with a higher --file-check-rate.",
	"file names":              restoreFiles,
	"ACME account":            "Set --acme-eab-kid and --acme-eab-key-file to the id and the key that the certificate authority shows, with mode 0600.",
	"TLS certificate":         "Write a renewed certificate and its key to the files of --tls-cert and --tls-key, or read the log of the server about --acme-domain.",
}

// withRemedies adds the remedies to the findings that are not good.
func withRemedies(list []Finding) []Finding {
	for i, f := range list {
		if !f.Good && f.Remedy == "" {
			list[i].Remedy = remedies[f.Name]
		}
	}
	return list
}
