// Round trips as measurement apps take them in their runtime (delay measurement paper, section 5.1):
//   java Probe.java rst HOST 7 COUNT INTERVAL_MS      InetAddress.isReachable, Inet ping
//   java Probe.java http HOST PORT COUNT INTERVAL_MS  HttpURLConnection, HTTP ping
//   java Probe.java exec PROGRAM ARGUMENT...          a native program, External ping (section 6.1)
// Prints "OUT_NS IN_NS" for each probe, "lost" for a lost one; exec: what the program prints.

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.URL;
import java.util.Arrays;

public final class Probe {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("exec")) {
            System.exit(exec(Arrays.copyOfRange(arguments, 1, arguments.length)));
        }
        String host = arguments[1];
        int port = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        long intervalNs = Long.parseLong(arguments[4]) * 1_000_000L;
        InetAddress address = InetAddress.getByName(host);
        URL url = new URL("http", host, port, "/");
        byte[] buffer = new byte[1024];
        StringBuilder told = new StringBuilder();
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long wait = start + i * intervalNs - System.nanoTime();
            if (wait > 0) {
                Thread.sleep(wait / 1_000_000L, (int) (wait % 1_000_000L));
            }
            long out;
            boolean answered;
            if (arguments[0].equals("rst")) {
                out = System.nanoTime();
                answered = address.isReachable(2000);
            } else {
                HttpURLConnection connection = (HttpURLConnection) url.openConnection();
                // The handshake is not counted, as in the paper; an open connection is taken again.
                connection.connect();
                out = System.nanoTime();
                try (InputStream in = connection.getInputStream()) {
                    while (in.read(buffer) >= 0) {
                        // All of it, so that the connection can be taken again.
                    }
                }
                answered = connection.getResponseCode() == 200;
            }
            long in = System.nanoTime();
            told.append(answered ? out + " " + in : "lost").append('\n');
        }
        System.out.print(told);
    }

    private static int exec(String[] command) throws Exception {
        Process process =
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(line);
            }
        }
        return process.waitFor();
    }
}
