// SPDX-License-Identifier: MIT
// Runs FILE, a pipeline, below the directory TOP as the documentation of Nextflow says of the words that shfs writes
// (nextflow.io/docs/latest: process, workflow, the params; inputs are links in a new directory of each task, which
// bash -ue runs). Nextflow itself is in no registry that tests may use. Whatever else the file says is an error.
import java.nio.file.*

def cli = [file: new File(args[0]), top: new File(args[1]), outdir: args[2]]

class Task extends GroovyObjectSupport {
    def name, inputs = [], outputs = [], publish, tag
    def path(String file) { inputs << file }
    def path(Map how, String file) { assert how.keySet() == ['emit'] as Set && how.emit == file; outputs << file }
    def val(name) { inputs << null }
    def tag(String text) { tag = text }
    def publishDir(Map how, String into) { assert how == [mode: 'copy']; publish = into }
    def propertyMissing(String name) { assert name ==~ /[fo]\d+|after\d+|results/; name }
}

abstract class Pipeline extends Script {
    def processes = [:], runs = [:], given
    def getParams() { given ?: (given = new Params(given: binding.getVariable('outdir'))) }
    def process(definition) { }
    def workflow(Closure body) { body.delegate = this; body() }
    def methodMissing(String name, args) {
        if (!processes.containsKey(name)) {
            assert args.size() == 1 && args[0] instanceof Closure && name ==~ /[a-z]\w*/
            processes[name] = args[0]
            return
        }
        assert !runs.containsKey(name)
        runs[name] = run(name, args as List)
    }
    def propertyMissing(String name) {
        [out: runs[name]]
    }
    def run(String name, List given) {
        def task = new Task(name: name), body = processes[name].clone()
        body.delegate = new Delegate(task: task, pipeline: this)
        body.resolveStrategy = Closure.DELEGATE_ONLY
        def script = body(), work = new File(binding.getVariable('top'), "work-${runs.size()}")
        assert script instanceof String && given.size() == task.inputs.size()
        work.mkdirs()
        [task.inputs, given].transpose().each { file, Path from ->
            assert Files.exists(from)
            if (file)
                Files.createSymbolicLink(work.toPath().resolve(file), from)
        }
        new File(work, '.command.sh').text = '#!/bin/bash -ue\n' + script.stripIndent().trim() + '\n'
        def done = new ProcessBuilder('bash', '-ue', '.command.sh').directory(work).inheritIO().start().waitFor()
        if (done) {
            System.err.println("Process `${name}` (${task.tag}) terminated with an error exit status (${done})")
            System.exit(1)
        }
        def made = task.outputs.collectEntries {
            def file = work.toPath().resolve(it)
            assert Files.exists(file): "Missing output file(s) `${it}` expected by process `${name}`"
            [it, file]
        }
        if (task.publish)
            assert ['cp', '-rp', 'results', task.publish].execute(null as List, work).waitFor() == 0
        made
    }
}

class Params {
    String given
    def getOutdir() { given }
    void setOutdir(String other) { assert other == '.' }
}

class Delegate {
    Task task
    Pipeline pipeline
    def getParams() { pipeline.params }
    def methodMissing(String name, args) { task.invokeMethod(name, args) }
    def propertyMissing(String name) { task.propertyMissing(name) }
}

def config = new org.codehaus.groovy.control.CompilerConfiguration(scriptBaseClass: 'Pipeline', sourceEncoding: 'UTF-8')
new GroovyShell(this.class.classLoader, new Binding(top: cli.top, outdir: cli.outdir), config).evaluate(cli.file)
