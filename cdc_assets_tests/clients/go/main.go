// Checks of go-mssqldb against a SQL Server: each writes what it saw as a line of JSON.
// Where the server is comes from the environment, what to run from expected.json.
package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
)

// Expected is the part of expected.json that says what to run.
type Expected struct {
	WrongPassword struct{ Password string } `json:"wrong_password"`
	Scratch       struct{ Create string }
	Types         struct {
		Table, DDL string
		Columns    []Column
	}
	TypesWritten struct{ Insert string } `json:"types_written"`
	Output       struct {
		SQL string
		In  struct {
			A int
			S string
		}
	} `json:"output_parameters"`
	Savepoint  struct{ Kept, Undone, Read string }
	Parameters struct {
		SQL    string
		Values []any
	}
	PreparedTwice struct {
		SQL  string
		Runs []struct{ Values []any }
	} `json:"prepared_twice"`
	Transactions struct {
		Statements []string
		Read       string
	}
	Errors struct {
		Then  struct{ SQL string }
		Cases []struct{ Name, Login, SQL string }
	}
	Cancel struct {
		Statements   []string
		AfterSeconds float64 `json:"after_seconds"`
		Then         struct{ SQL string }
	}
	SeveralResultSets struct{ SQL string }   `json:"several_result_sets"`
	RowCounts         []struct{ SQL string } `json:"row_counts"`
	Unicode           struct {
		Insert, Read, Literal string
		Texts                 []struct{ Text string }
	}
	LongText struct {
		Unit         string
		Characters   []int
		Insert, Read string
	} `json:"long_text"`
	Nulls struct {
		Insert string
		Values []any
		Read   string
	}
}

// Column is one of the types' columns.
type Column struct {
	Name, Kind, Text string
	Digits           int
}

// Client is what every check needs: the orders, and a pool as the administrator.
type Client struct {
	expected Expected
	db       *sql.DB
}

func env(name string) string { return os.Getenv("CLIENT_" + name) }

// open makes a pool for a login; options are added to the connection string.
func open(user, password string, options map[string]string) (*sql.DB, error) {
	query := url.Values{"database": {env("DATABASE")}}
	for key, value := range options {
		query.Set(key, value)
	}
	address := url.URL{
		Scheme:   "sqlserver",
		User:     url.UserPassword(user, password),
		Host:     env("HOST") + ":" + env("PORT"),
		RawQuery: query.Encode(),
	}
	return sql.Open("sqlserver", address.String())
}

func verified() map[string]string {
	return map[string]string{
		"encrypt": "true", "certificate": env("CA_FILE"), "hostNameInCertificate": "localhost",
	}
}

func administrator(options map[string]string) (*sql.DB, error) {
	return open(env("USER"), env("PASSWORD"), options)
}

func run() error {
	text, err := os.ReadFile(env("EXPECTED"))
	if err != nil {
		return err
	}
	var client Client
	if err = json.Unmarshal(text, &client.expected); err != nil {
		return err
	}
	if client.db, err = administrator(verified()); err != nil {
		return err
	}
	defer client.db.Close()
	lines := json.NewEncoder(os.Stdout)
	for _, check := range checks {
		got, err := check.run(&client)
		line := map[string]any{"check": check.name, "ok": err == nil, "got": got}
		if err != nil {
			line["got"] = err.Error()
		}
		if err = lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
