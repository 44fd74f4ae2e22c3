// Command probe looks at a cluster from inside a pod: names, Services, volumes, memory limits.
//
//	probe serve TEXT        answer every HTTP request on :8080 with TEXT
//	probe get URL           print what the URL answers
//	probe lookup NAME       print the addresses of a name
//	probe write PATH TEXT   write a file
//	probe read PATH         print a file
//	probe sleep             wait for a signal to end
//	probe eat MEBIBYTES     allocate and touch memory, then wait
//	probe say STDOUT CODE   print a line and exit with a code
//	probe echo              copy stdin to stdout
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("no command: see the source for the list")
	}
	command, args := args[0], append(args[1:], "", "")
	switch command {
	case "serve":
		return serve(args[0])
	case "get":
		return get(args[0])
	case "lookup":
		addresses, err := net.LookupHost(args[0])
		fmt.Println(addresses)
		return err
	case "write":
		return os.WriteFile(args[0], []byte(args[1]), 0o644)
	case "read":
		content, err := os.ReadFile(args[0])
		fmt.Println(string(content))
		return err
	case "sleep":
		wait()
		return nil
	case "eat":
		return eat(args[0])
	case "say":
		fmt.Println(args[0])
		code, err := strconv.Atoi(args[1])
		if err == nil {
			os.Exit(code)
		}
		return err
	case "echo":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	}
	return fmt.Errorf("unknown command %q", command)
}

func wait() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
}

func serve(text string) error {
	go func() { wait(); os.Exit(0) }()
	handler := http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(out, text)
	})
	server := &http.Server{Addr: ":8080", Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

func get(url string) error {
	client := &http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func eat(mebibytes string) error {
	count, err := strconv.Atoi(mebibytes)
	if err != nil {
		return err
	}
	var kept [][]byte
	for range count {
		block := make([]byte, 1<<20)
		for at := 0; at < len(block); at += 4096 {
			block[at] = 1
		}
		kept = append(kept, block)
	}
	wait()
	fmt.Println(len(kept))
	return nil
}
